"""`llmc reduce`: small modules that still show what the large one did, and errors in one line."""

import shlex
import sys
import tempfile
import time

import pytest
from torch_mlir import ir

from llmc.pipelines.reduction.command import Command
from llmc.pipelines.reduction.reduce import reduce
from llmc.pipelines.walks import walk
from llmc.runtime.errors import UserError
from llmc.tools.llmc import main

OPT = f"{shlex.quote(sys.executable)} -m llmc.tools.llmc_opt"
CSE = "'builtin.module(cse)'"
TENSOR = "tensor<4x4xf32>"


def layers_of(count: int, first: str, last: str = "") -> str:
    """A module of `count` functions, each of 34 operations and a call of the one before.

    `first` stands in the middle of the first function, `last` in the middle of the last one.
    """
    functions = []
    for number in range(count):
        culprit = {0: first, count - 1: last}.get(number, "")
        lines = [f'%w = "llmc.parameter"() {{sources = ["w{number}"]}} : () -> {TENSOR}']
        lines.append(f"%0 = arith.mulf %x, %w : {TENSOR}")
        for at in range(1, 31):
            lines += [culprit] if at == 15 else []
            lines.append(f"%{at} = arith.addf %{at - 1}, %{at // 2} : {TENSOR}")
        if number:
            lines.append(f"%31 = call @f{number - 1}(%30, %0) : ({TENSOR}, {TENSOR}) -> {TENSOR}")
        lines.append(f"return %{31 if number else 30} : {TENSOR}")
        body = "\n".join(lines)
        functions.append(
            f"func.func @f{number}(%x: {TENSOR}, %y: {TENSOR}) -> {TENSOR} {{\n{body}\n}}\n"
        )
    return "".join(functions)


def parse(text: str) -> ir.Module:
    from llmc import dialects

    context = ir.Context()
    context.allow_unregistered_dialects = True
    dialects.load(context)
    return ir.Module.parse(text, context)


def names(text: str) -> list[str]:
    """The operations of a module, by name."""
    return [op.name for op in walk(parse(text).operation)]


def smallest(text: str, test: str, jobs: int = 2, timeout: float = 30) -> str:
    *_, last = reduce(text, Command(test, timeout), jobs)
    return last.text


def test_a_thousand_operations_come_down_to_those_that_fail_together(tmp_path, capsys):
    """The bug, as it were: `cse` makes one of two operations that are 900 others apart."""
    steps = [f"%{at} = arith.addf %{at - 1}, %{at // 2} : {TENSOR}" for at in range(1, 1000)]
    steps[40] += f"\n%one = math.exp %3 : {TENSOR}"
    steps[950] += f"\n%other = math.exp %3 : {TENSOR}\n%both = arith.mulf %one, %other : {TENSOR}"
    body = "\n".join([f"%0 = arith.mulf %x, %x : {TENSOR}", *steps, f"return %both : {TENSOR}"])
    file, output = tmp_path / "in.mlir", tmp_path / "out.mlir"
    file.write_text(f"func.func @f(%x: {TENSOR}) -> {TENSOR} {{\n{body}\n}}")
    count = "grep -c math.exp"
    test = f"test $({count} %s) = 2 && test $({OPT} %s --pass-pipeline={CSE} | {count}) = 1"
    assert main(["reduce", str(file), "--test", test, "-o", str(output)]) == 0
    assert capsys.readouterr().out == ""
    assert names(output.read_text()) == ["func.func", "math.exp", "math.exp", "func.return"]


@pytest.mark.parametrize(
    ("end", "status"), [("exit 0", 0), ("exit 1", 1), ("kill -SEGV $$", -11), ("sleep 9", None)]
)
def test_whatever_way_the_test_ends_on_the_whole_is_kept(end, status):
    text = layers_of(4, first=f"%a = math.exp %14 : {TENSOR}", last=f"%b = math.sin %9 : {TENSOR}")
    test = f"f=%s; if grep -q math.exp $f && grep -q math.sin $f; then {end}; else exit 3; fi"
    small = smallest(text, test, timeout=0.2 if status is None else 30)
    assert {"math.exp", "math.sin"} < set(names(small))
    assert len(names(small)) < 10
    assert Command(test, 0.2).run(small).status == status


def test_the_result_is_the_same_however_many_are_tried_at_once():
    text = layers_of(6, first=f"%a = math.exp %14 : {TENSOR}")
    test = "grep -q math.exp %s && grep -q call %s"
    alone, many = (smallest(text, test, jobs) for jobs in (1, 5))
    assert alone == many
    assert names(alone).count("func.call") == 1


def test_what_ties_operations_together_is_kept_where_it_matters():
    """The test looks for one operation that uses another's result, eight operations between."""
    script = (
        "import sys, re; text = open(sys.argv[1]).read();"
        r"found = re.search(r'(%\w+) = math.exp', text);"
        "sys.exit(not (found and re.search('math.sin ' + found[1] + ' ', text)))"
    )
    chain = f"%a = math.exp %14 : {TENSOR}\n%b = math.sin %a : {TENSOR}"
    small = smallest(
        layers_of(2, first=chain), f"{shlex.quote(sys.executable)} -c {shlex.quote(script)}"
    )
    assert "math.exp" in small
    assert len(names(small)) < 6


def test_unregistered_operations_signatures_and_attributes_are_cut_too():
    text = """
      "flow.executable"() ({ "flow.export"() {sym_name = "e"} : () -> () })
          {sym_name = "kernel", long = [1, 2, 3, 4]} : () -> ()
      func.func private @g(%a: memref<4xi32> {x.y}, %b: !stream.timepoint)
          -> (i32, !stream.timepoint) {
        %0 = "flow.dispatch"(%a) {callee = @kernel::@e, workload = [5, 6]} : (memref<4xi32>) -> i32
        %1 = "stream.join"(%b, %b) : (!stream.timepoint, !stream.timepoint) -> !stream.timepoint
        return %0, %1 : i32, !stream.timepoint
      }
      func.func @f(%a: memref<4xi32>, %b: !stream.timepoint) -> i32 {
        %0:2 = call @g(%a, %b) : (memref<4xi32>, !stream.timepoint) -> (i32, !stream.timepoint)
        %1 = arith.constant dense<[1, 2, 3]> : tensor<3xi32>
        %2 = "flow.use"(%1) : (tensor<3xi32>) -> i32
        return %2 : i32
      }"""
    small = smallest(text, "grep -q stream.join %s && grep -q flow.use %s && grep -q call %s")
    assert "flow.executable" not in small
    assert "memref" not in small
    assert "dense<[" not in small
    assert "x.y" not in small


@pytest.mark.parametrize(
    ("text", "test", "words"),
    [
        ("func.func @f() {", "true", "no valid module"),
        ("func.func @f() { return }", "true", "on an empty module as well"),
        ("func.func @f() { return }", "grep -q nothing", "on an empty module as well"),
        ("func.func @f() { return }", "no-such-command", "cannot run"),
        ("func.func @f() { return }", "./tests", "cannot run"),
        ("// A comment.\nfunc.func @f() { return }", "grep -q comment", "parsed and printed"),
    ],
)
def test_what_cannot_be_reduced_is_an_error_of_the_users(text, test, words, tmp_path, capsys):
    with pytest.raises(UserError, match=words):
        smallest(text, test)
    file = tmp_path / "in.mlir"
    file.write_text(text)
    assert main(["reduce", str(file), "--test", test]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("llmc: error: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("options", [["--timeout", "0"], ["--timeout", "x"], ["--jobs", "0"]])
def test_bad_options_are_errors_of_the_users(options, capsys):
    assert main(["reduce", "in.mlir", "--test", "true", *options]) == 2
    assert options[0] in capsys.readouterr().err


def test_files_that_cannot_be_read_or_written_are_errors_of_the_users(tmp_path, capsys):
    binary, plain = tmp_path / "binary.mlir", tmp_path / "plain.mlir"
    binary.write_bytes(b"\xff\xfe")
    plain.write_text("func.func @f() { return }")
    nowhere = str(tmp_path / "none" / "out.mlir")
    for words in ([str(tmp_path / "none")], [str(binary)], [str(plain), "-o", nowhere]):
        assert main(["reduce", *words, "--test", "grep -q func"]) == 2
        assert capsys.readouterr().err.splitlines()[-1].startswith("llmc: error: cannot ")


def test_a_test_that_is_given_up_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    late = tmp_path / "late"
    command = Command(f"(sleep 0.6; touch {late}) & sleep 60 | sleep 60; true", 0.2)
    assert command.run("").status is None
    time.sleep(0.8)
    assert not list(tmp_path.iterdir())
