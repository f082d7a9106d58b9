"""Whatever `llmc-opt` is given, it ends in time with status 0 or 1, and tells what is wrong."""

import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from io import BytesIO

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from torch_mlir import ir

from llmc import dialects
from llmc.pipelines.passes import PASSES
from llmc.pipelines.pipeline import PIPELINES
from tests.fuzzing import ROOT, FrontDoor, Mutation, mangled, mutations

PIPELINES_THAT_ARE_FINE = [
    "builtin.module(llmc-state,pack-weights{columns=8 rows=8},func.func(canonicalize,cse))",
    "builtin.module(func.func(canonicalize{max-iterations=3 region-simplify=normal}),symbol-dce)",
    "builtin.module(llmc-to-iree{target=cpu storage=f16})",
    "any(cse)",
    "builtin.module(inline{default-pipeline=canonicalize op-pipelines=func.func(cse)})",
    'builtin.module(apply-schedule{schedule="matvec{rows=8}"})',
    'builtin.module(apply-schedule{file="nowhere.py:schedule"})',
    "builtin.module(llmc-to-iree{storage=strange})",
    *(f"builtin.module({name})" for name in sorted(PASSES)),
]
RUNS = [
    "canonicalize,cse",
    "number-layers,thread-kv-cache,canonicalize,cse,pack-weights,bind-parameters",
    *sorted(PASSES),
    *sorted(PIPELINES),
]
OPTIONS = [
    [],
    [],
    ["--allow-unregistered-dialect"],
    ["--split-input-file"],
    ["--verify-diagnostics"],
    ["--mlir-print-op-generic", "--mlir-print-debuginfo"],
    ["--emit-bytecode"],
    ["--no-implicit-module"],
]
LARGEST = 6000


def sources() -> list[bytes]:
    """The parts of all lit tests that are not too large."""
    files = sorted((ROOT / "lit_tests").rglob("*.mlir"))
    parts = [
        part
        for file in files
        for part in re.split(rb"^// -----.*$", file.read_bytes(), flags=re.MULTILINE)
    ]
    return [part for part in parts if len(part) <= LARGEST]


@cache
def bytecode(source: bytes) -> bytes:
    """A source as bytecode; nothing where it is none that MLIR takes."""
    context = ir.Context()
    dialects.load(context)
    context.attach_diagnostic_handler(lambda _: True)
    written = BytesIO()
    with suppress(ir.MLIRError, UnicodeDecodeError):
        ir.Module.parse(source.decode(), context).operation.write_bytecode(written)
        return written.getvalue()
    return b""


@pytest.fixture(scope="module")
def front_door() -> Iterator[FrontDoor]:
    door = FrontDoor()
    yield door
    door.close()


def bounded(examples: int, request: pytest.FixtureRequest) -> Callable:
    """The same examples at every run, and so many of them; forty times as many if thorough."""
    return settings(
        max_examples=examples * (40 if request.config.getoption("--thorough") else 1),
        derandomize=True,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )


def judge(status: int, said: str) -> None:
    assert status in (0, 1), said
    assert "Traceback" not in said
    assert status == 0 or "error:" in said


def test_mangled_modules(front_door, tmp_path, request):
    file = tmp_path / "mangled.mlir"

    @bounded(60, request)
    @given(st.sampled_from(sources()), mutations, st.sampled_from(RUNS), st.sampled_from(OPTIONS))
    def ends_well(source: bytes, changes: list[Mutation], run: str, options: list[str]) -> None:
        file.write_bytes(mangled(source, changes))
        judge(*front_door.run(str(file), f"--pass-pipeline=builtin.module({run})", *options))

    ends_well()


def test_mangled_bytecode(front_door, tmp_path, request):
    file = tmp_path / "mangled.mlirbc"
    changes = st.lists(st.tuples(st.integers(0, 6000), st.integers(0, 255)), max_size=4)

    @bounded(50, request)
    @given(st.sampled_from(sources()), changes, st.sampled_from(RUNS), st.sampled_from(OPTIONS))
    def ends_well(
        source: bytes, changes: list[tuple[int, int]], run: str, options: list[str]
    ) -> None:
        content = bytearray(bytecode(source))
        assume(content)
        for place, byte in changes:
            content[place % len(content)] = byte
        file.write_bytes(content)
        status, said = front_door.run(str(file), f"--pass-pipeline=builtin.module({run})", *options)
        # MLIR's reader of bytecode may read types of types of types for minutes.
        assume(status != -signal.SIGALRM)
        judge(status, said)

    ends_well()


@pytest.mark.parametrize("short", [False, True], ids=["pipeline", "short form"])
def test_mangled_pipelines(front_door, tmp_path, request, short):
    file = tmp_path / "fine.mlir"
    file.write_text(
        "func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }"
    )

    @bounded(40, request)
    @given(st.sampled_from(PIPELINES_THAT_ARE_FINE), mutations)
    def ends_well(pipeline: str, changes: list[Mutation]) -> None:
        # No program can be given a zero byte.
        text = mangled(pipeline.encode(), changes).replace(b"\0", b"\1")
        words = text.decode("utf-8", "surrogateescape")
        options = (
            [f"--{word}" for word in words.split(",")] if short else ["--pass-pipeline", words]
        )
        judge(*front_door.run(str(file), *options))

    ends_well()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0",
        b"\xff\xfe\xfd",
        b"module {",
        b"func.func @f() { return } \0 module {}",
        b"#a = " + b"[" * 100_000,
        b"func.func @f() " + b"{" * 100_000,
        b"!t = " + b"tuple<" * 50_000,
        b"func.func @f(%x: tensor<99999999999999999999xf32>) { return }",
        b"func.func @f() { %0 = arith.constant 1e999999 : f32 return }",
        b'"llmc.parameter"() {sources = []} : () -> tensor<4xf32>',
        b"func.func @f(%i: index) { %0 = llmc.linear(%i) : (index) -> index return }",
        b"ML\xefR",
        b"ML\xefR\x0dMLIR22\0" + b"\xff" * 100,
        b"// expected-error {{",
    ],
    ids=range(15),
)
def test_hostile_files(front_door, content, tmp_path):
    file = tmp_path / "hostile.mlir"
    file.write_bytes(content)
    judge(*front_door.run(str(file), "--canonicalize"))


@pytest.mark.parametrize("content", [b"\xff\xfe\xfd", b"#a = " + b"[" * 100_000], ids=range(2))
def test_the_command_itself_takes_hostile_files(content, tmp_path):
    file = tmp_path / "hostile.mlir"
    file.write_bytes(content)
    words = [sys.executable, "-m", "llmc.tools.llmc_opt", str(file), "--canonicalize"]
    done = subprocess.run(words, capture_output=True, timeout=60)
    judge(done.returncode, done.stderr.decode("utf-8", "replace"))


def test_a_crash_in_mlir_is_an_error(front_door, tmp_path):
    """MLIR's parser runs out of stack."""
    file = tmp_path / "deep.mlir"
    file.write_bytes(b"#a = " + b"[" * 100_000)
    status, said = front_door.run(str(file))
    judge(status, said)
    assert "SIGSEGV" in said
