"""Tuning: what it tries is valid and correct, what it finds is kept and compiled by."""

import json
from contextlib import nullcontext
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from torch_mlir import ir
from torch_mlir.dialects import func
from torch_mlir.extras import types as T

from llmc.dialects import PackedLinearOp
from llmc.frontend.compile import make_skeleton
from llmc.frontend.lowering import start_lowering
from llmc.frontend.options import CompileOptions
from llmc.frontend.source import open_model
from llmc.frontend.tuned import database_path, forget
from llmc.frontend.tuning import tune_model
from llmc.frontend.work import Work
from llmc.pipelines.passes import (
    DispatchKernels,
    LowerLlmc,
    OutlineLinears,
    OutlineQuantizedLinears,
    ScheduleKernels,
)
from llmc.pipelines.passes.schedule_kernels import TUNED, run_alone
from llmc.pipelines.schedules.schedule import PythonSchedule
from llmc.pipelines.schedules.strategies import choose_schedule
from llmc.pipelines.schedules.transform_ops.prefetch import FIRST_CACHE, SECOND_CACHE
from llmc.pipelines.targets.cpu import CPUTarget
from llmc.pipelines.targets.parse import parse_cpu
from llmc.pipelines.tuning import tune
from llmc.pipelines.tuning.candidates import candidates
from llmc.pipelines.tuning.database import Database, Entry, Key
from llmc.pipelines.tuning.halving import fastest
from llmc.pipelines.tuning.kernel_key import kernel_key
from llmc.pipelines.tuning.subject import Subject, subjects
from llmc.pipelines.tuning.tune import tune_kernel
from llmc.pipelines.walks import find
from llmc.runtime.errors import UserError
from tests.decode_attention import Shape as DecodeShape
from tests.scheduled import load, new_context
from tests.test_attention_kernel import Shape as PromptShape
from tests.test_quantized_kernels import Case
from tests.tiny_models import save_tiny_tokenizer, tiny_config, tiny_model

pytestmark = pytest.mark.usefixtures("imported_once")

ENTRY = Entry(
    key=Key("matvec", "(tensor<4xf32>) -> tensor<4xf32>", "c0de", "x86_64 znver3 0", "v1"),
    schedule="matvec{rows=4}",
    default="matvec{rows=8}",
    seconds=1e-6,
    default_seconds=2e-6,
    threads=2,
)


def test_database_is_read_as_written(tmp_path):
    path = tmp_path / "folder" / "machine.json"
    assert list(Database.read(path)) == []
    other = replace(ENTRY, key=replace(ENTRY.key, code="c0d1"))
    newer = replace(ENTRY, schedule="matvec{rows=2}")
    Database([ENTRY, other, newer]).write(path)
    database = Database.read(path)
    assert list(database) == [other, newer]
    assert database.find(ENTRY.key) == newer
    assert database.find(replace(ENTRY.key, shape="() -> ()")) is None
    assert [file.name for file in path.parent.iterdir()] == ["machine.json"]


def _edited(**changes: object) -> bytes:
    entry = {**vars(ENTRY), "key": vars(ENTRY.key), **changes}
    return json.dumps({"schema": 1, "entries": [entry]}).encode()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        b'{"schema": 2, "entries": []}',
        b'{"schema": 1, "entries": {}}',
        b'{"schema": 1, "entries": [1]}',
        _edited(more=1),
        _edited(key={}),
        _edited(key={**vars(ENTRY.key), "code": 1}),
        _edited(schedule=""),
        _edited(seconds=0),
        _edited(seconds=float("nan")),
        _edited(threads=True),
    ],
)
def test_damaged_database_is_named(tmp_path, content):
    path = tmp_path / "machine.json"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"machine\.json"):
        Database.read(path)


def test_digest_is_of_what_compilations_depend_on():
    def digest(**changes: object) -> str:
        return Database([replace(ENTRY, **changes)]).digest("v1")

    nothing = Database().digest("v1")
    assert digest(seconds=1.5e-6, default_seconds=3e-6, threads=1) == digest() != nothing
    assert digest(schedule="matvec{rows=2}") != digest()
    assert digest(key=replace(ENTRY.key, code="c0d1")) != digest()
    assert digest(schedule=ENTRY.default) == nothing
    assert digest(key=replace(ENTRY.key, versions="v0")) == nothing


def _layer(kind: str, columns: int = 16, panels: int = 24) -> tuple[ir.Module, Case, list]:
    """A layer `main` in the current context, whose kernel is one of `kind`."""
    rows = 1 if kind.endswith("matvec") else 21
    case = Case(rows, 64, panels * columns, dynamic=rows > 1, columns=columns)
    arrays = case.arrays()
    if kind.startswith("quantized"):
        module = case.module(arrays)
        OutlineQuantizedLinears().apply(module)
    else:
        rng = np.random.default_rng(0)
        arrays = [arrays[0], rng.standard_normal((panels, 64, columns)).astype(np.float32)]
        module = _float_layer(arrays, "?" if rows > 1 else "1")
        OutlineLinears().apply(module)
    LowerLlmc(keep_kernels=True).apply(module)
    return module, case, arrays


def _float_layer(arrays: list[np.ndarray], rows: str) -> ir.Module:
    panels, inputs, columns = arrays[1].shape
    x, weight, y = (
        ir.Type.parse(f"tensor<{shape}xf32>")
        for shape in (
            f"1x{rows}x{inputs}",
            f"{panels}x{inputs}x{columns}",
            f"1x{rows}x{panels * columns}",
        )
    )
    module = ir.Module.create()
    with ir.InsertionPoint(module.body):
        main = func.FuncOp("main", ([x, weight], [y]))
    with ir.InsertionPoint(main.add_entry_block()):
        one = ir.IntegerAttr.get(T.i64(), 1)
        func.ReturnOp([PackedLinearOp(*main.arguments, one, y).out])
    return module


def _subject(module: ir.Module, kind: str) -> Subject:
    (subject,) = (subject for subject in subjects(module) if subject.kind == kind)
    return subject


# Of each kind's candidates, for to compile them all takes minutes.
_TRIED = 4

KINDS = ("quantized_matvec", "quantized_matmul", "panel_matvec", "panel_matmul")


def _copy_for_each(choices: list[PythonSchedule], module: ir.Module, subject: Subject) -> None:
    """Makes `main_N`, whose kernel has choice N, of `main`."""
    main = next(op for op in module.body if op.operation.attributes["sym_name"].value == "main")
    for number, schedule in enumerate(choices):
        with ir.InsertionPoint(module.body):
            kernel, caller = subject.kernel.operation.clone(), main.operation.clone()
        name = f"kernel_{number}"
        kernel.attributes["sym_name"] = ir.StringAttr.get(name)
        caller.attributes["sym_name"] = ir.StringAttr.get(f"main_{number}")
        for call in find(caller.operation, "func.call"):
            if call.attributes["callee"].value == subject.name:
                call.attributes["callee"] = ir.FlatSymbolRefAttr.get(name)
        run_alone(schedule, kernel)
    main.operation.erase()
    subject.kernel.operation.erase()


@pytest.mark.parametrize("kind", KINDS)
def test_candidates_compute_the_layer(kind):
    with new_context(), ir.Location.unknown():
        target = CPUTarget()
        module, case, arrays = _layer(kind, target.columns)
        subject = _subject(module, kind)
        choices = candidates(kind, subject.kernel, target)
        assert len(set(choices)) == len(choices) > _TRIED
        choices = [choices[0], *Random(1).sample(choices[1:], _TRIED)]
        _copy_for_each(choices, module, subject)
        for other in subjects(module):
            if other.kind != kind:
                run_alone(choose_schedule(other.kind, other.kernel, target), other.kernel)
        DispatchKernels().apply(module)
        run = load(module)
        results = [run(f"main_{number}", arrays)[0] for number in range(len(choices))]
    if kind.startswith("quantized"):
        expected = case.expected(arrays)
    else:
        x, weight = (array.astype(np.float64) for array in arrays)
        expected = np.einsum("btk,pkj->btpj", x, weight).reshape(results[0].shape)
    atol = 2e-6 * np.abs(expected).max()
    for schedule, result in zip(choices, results, strict=True):
        np.testing.assert_allclose(result, expected, rtol=0, atol=atol, err_msg=schedule.text)


def test_no_two_candidates_ask_for_the_same():
    with new_context(), ir.Location.unknown():
        target = CPUTarget()
        module, *_ = _layer("quantized_matvec", target.columns)
        kernel = _subject(module, "quantized_matvec").kernel
        parameters = [each.parameters for each in candidates("quantized_matvec", kernel, target)]
    ask_for_none = [replace(each, cache=FIRST_CACHE) for each in parameters if not each.blocks]
    assert len(set(ask_for_none)) == len(ask_for_none) > 0
    assert {each.cache for each in parameters if each.blocks} == {FIRST_CACHE, SECOND_CACHE}


def test_key_is_of_shape_body_and_target():
    def key(kind: str, panels: int, target: str = "cpu") -> Key:
        with new_context(), ir.Location.unknown():
            module, *_ = _layer(kind, panels=panels)
            subject = _subject(module, kind)
            subject.kernel.attributes["sym_name"] = ir.StringAttr.get(f"name_{panels}_{target}")
            return kernel_key(kind, subject.kernel, parse_cpu(target))

    first = key("panel_matvec", 8)
    assert key("panel_matvec", 8) == first
    assert key("panel_matvec", 16).shape != first.shape
    assert key("panel_matmul", 8).code != first.code
    other = key("panel_matvec", 8, "cpu:x86-64-v3")
    assert other != first
    assert replace(other, target=first.target) == first


def _grid(database: Database, tmp_path) -> tuple[int, bool]:
    """Panels of a workgroup after scheduling, and whether it is said that tuning chose them."""
    path = tmp_path / "machine.json"
    database.write(path)
    with new_context(), ir.Location.unknown():
        module, *_ = _layer("panel_matvec")
        ScheduleKernels(tuned=str(path)).apply(module)
        (loop,) = find(module.operation, "scf.forall")
        (step,) = loop.attributes["staticStep"]
        return step, TUNED in loop.parent.attributes


def test_compilation_follows_the_database(tmp_path):
    with new_context(), ir.Location.unknown():
        module, *_ = _layer("panel_matvec")
        kernel = _subject(module, "panel_matvec").kernel
        target = CPUTarget()
        key = kernel_key("panel_matvec", kernel, target)
        default, *others = candidates("panel_matvec", kernel, target)
    usual = default.parameters.panels * default.parameters.rounds
    other = next(
        each for each in others if each.parameters.panels * each.parameters.rounds != usual
    )
    best = replace(ENTRY, key=key, schedule=other.text, default=default.text)
    tuned = other.parameters.panels * other.parameters.rounds
    assert _grid(Database([best]), tmp_path) == (tuned, True)
    assert _grid(Database(), tmp_path) == (usual, False)
    for change in (
        {"key": replace(key, versions="older")},
        {"key": replace(key, code="0")},
        {"schedule": "panel_matvec{panels=256}"},
        {"schedule": "matvec{rows=4}"},
        {"schedule": "nonsense"},
    ):
        assert _grid(Database([replace(best, **change)]), tmp_path) == (usual, False)


def test_fastest_of_noisy_timers():
    rng = np.random.default_rng(0)

    def timer(seconds: float):
        return lambda: seconds * (1 + rng.exponential(0.2))

    times = [5.0, 9.0, 4.0, 7.0, 3.0, 8.0, 6.0]
    found = fastest([timer(seconds) for seconds in times])
    assert found.number == 4
    assert 3 <= found.seconds < 3.3 and 5 <= found.first_seconds < 5.5
    assert fastest([timer(seconds) for seconds in (3.0, 5.0, 4.0)]).number == 0
    assert fastest([timer(3.0)]).number == 0


def test_what_is_fast_once_is_not_the_fastest():
    """Its best run is better than the first's, most of them are worse."""
    lucky = iter([1.0] + [5.0] * 40)
    assert fastest([lambda: 4.0, lambda: next(lucky)]).number == 0


@pytest.fixture
def two_candidates(monkeypatch):
    """To compile all takes minutes."""
    monkeypatch.setattr(tune, "candidates", lambda *kernel: candidates(*kernel)[:2])


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [
        ("q8_0", "quantized_expert"),
        pytest.param("f16", "panel_expert", marks=pytest.mark.thorough),
    ],
)
def test_kernels_of_experts_are_tuned(tmp_path, monkeypatch, two_candidates, dtype, kind):
    monkeypatch.setenv("LLMC_CACHE", str(tmp_path / "cache"))
    config = tiny_config("qwen3_moe")
    config.moe_intermediate_size = 96
    tiny_model(config).save_pretrained(tmp_path / "model")
    save_tiny_tokenizer(tmp_path / "model")
    options = CompileOptions(dtype=dtype, context=64)
    database_path().parent.mkdir(parents=True)
    Database([ENTRY]).write(database_path())  # of other versions, which are dropped
    found = tune_model(str(tmp_path / "model"), options, 1, pattern="expert")
    entries = [entry for entry in found if entry is not None]
    assert {entry.key.kind for entry in entries} == {f"{kind}_matvec", f"{kind}_matmul"}
    assert all(entry.seconds <= entry.default_seconds for entry in entries)
    assert list(Database.read(database_path())) == sorted(entries, key=lambda entry: entry.key)
    assert [forget(), forget()] == [True, False]


def test_attention_is_tuned_and_compiled_by(tmp_path, monkeypatch, two_candidates):
    monkeypatch.setenv("LLMC_CACHE", str(tmp_path / "cache"))
    config = tiny_config("llama")
    config.head_dim = 48  # which fill no whole blocks
    tiny_model(config).save_pretrained(tmp_path / "model")
    save_tiny_tokenizer(tmp_path / "model")
    model, options = tmp_path / "model", CompileOptions(context=64, kv_dtype="q8_0")
    tuned = list(tune_model(str(model), options, 1, pattern="attention"))
    # One token of one sequence, and of any number.
    kinds = ["byte_attention", *["decode_attention"] * 2]
    assert [entry and entry.key.kind for entry in tuned] == kinds
    others = [replace(entry, schedule=OTHERS[entry.key.kind]) for entry in tuned]
    Database(others).write(database_path())
    work, loaded = Work(nullcontext, None), open_model(str(model))
    started = start_lowering(loaded, make_skeleton(loaded), options, work)
    started.run_stages(options.target, work, stop_after="linalg")
    assert work.tuned_kernels == len(tuned)


OTHERS = {
    "byte_attention": "byte_attention{rows=12 together=3}",
    "decode_attention": "decode_attention{whole=16 part=4 together=3 cores=1}",
}
"""Candidates that no rule chooses."""


def test_what_was_not_tried_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("LLMC_CACHE", str(tmp_path))
    with new_context(), ir.Location.unknown():
        module, *_ = _layer("panel_matvec")
        subject, target = _subject(module, "panel_matvec"), CPUTarget()
        assert tune_kernel(subject, target, 1, lambda _done, _of: False) is None
        *_, last = candidates(subject.kind, subject.kernel, target)
        known = replace(ENTRY, schedule=last.text)
        entry = tune_kernel(subject, target, 1, lambda done, _of: done < 2, known)
        assert entry is not None and entry.schedule in (entry.default, last.text)
        assert entry.seconds <= entry.default_seconds


def test_what_makes_the_same_kernel_is_timed_once():
    """Of heads of 256 channels the stack bears so few rows that all candidates are one."""
    with new_context(), ir.Location.unknown():
        module = ir.Module.parse(PromptShape(2, 1, 256, 256, cache="f16").function)
        (subject,) = subjects(module)
        assert len(candidates(subject.kind, subject.kernel, CPUTarget())) > 1
        assert tune_kernel(subject, CPUTarget(), threads=1) is None


def test_attention_follows_the_database(tmp_path):
    with new_context(), ir.Location.unknown():
        module = ir.Module.parse(DecodeShape(4, 2, 32, 32).function)
        (subject,) = subjects(module)
        default, *others = candidates(subject.kind, subject.kernel, CPUTarget())
        other = next(each for each in others if each.parameters.part != default.parameters.part)
        key = kernel_key(subject.kind, subject.kernel, CPUTarget())
        path = tmp_path / "machine.json"
        Database([replace(ENTRY, key=key, schedule=other.text)]).write(path)
        for tuned, schedule in (("", default), (str(path), other)):
            again = ir.Module.parse(DecodeShape(4, 2, 32, 32).function)
            ScheduleKernels(tuned=tuned).apply(again)
            (op,) = find(again.operation, "llmc.decode_attention")
            cut = {each.name: each.attr.value for each in op.attributes["llmc.decode_attention"]}
            assert cut == vars(schedule.parameters)
            assert (TUNED in op.attributes) == bool(tuned)


def test_kernels_of_complex_numbers_are_left_alone(tmp_path):
    """Rotary embedding of this family is a product of them."""
    config = tiny_config("deepseek_v2")
    tiny_model(config).save_pretrained(tmp_path)
    save_tiny_tokenizer(tmp_path)
    options = CompileOptions(dtype="f32", context=64, layers=1)
    with pytest.raises(UserError, match="no kernels to tune in whose kind 'region' is found"):
        list(tune_model(str(tmp_path), options, 1, pattern="region"))


def test_kernels_of_all_ranks_are_tuned(tmp_path, monkeypatch):
    """Each of them once, the output head among them, which only the last rank has."""
    config = tiny_config("llama")
    tiny_model(config).save_pretrained(tmp_path)
    save_tiny_tokenizer(tmp_path)
    found = []
    monkeypatch.setattr(
        "llmc.frontend.tuning.tune_kernel", lambda subject, *_: found.append(str(subject.kernel))
    )
    options = CompileOptions(dtype="q8_0", context=64, grid="pp=2")
    list(tune_model(str(tmp_path), options, 1, pattern="quantized_matvec"))
    head = f"tensor<{config.vocab_size // CPUTarget().columns}x"
    assert sum(head in kernel for kernel in found) == 1
    assert len(found) == len(set(found)) > 2


def test_panels_that_another_kernel_chooses_are_not_tuned():
    """Alone, a kernel would compute all of them, and be fastest by many at a time."""
    with new_context(), ir.Location.unknown():
        module, *_ = _layer("quantized_matvec")
        kernel = _subject(module, "quantized_matvec").kernel
        (only,) = candidates("quantized_panel", kernel, CPUTarget())
    assert only.function.__name__ == "quantized_panel"


def test_a_kernel_is_tuned():
    with new_context(), ir.Location.unknown():
        module, *_ = _layer("quantized_matmul")
        subject = _subject(module, "quantized_matmul")
        target = CPUTarget()
        choices = [each.text for each in candidates(subject.kind, subject.kernel, target)]
        entry = tune_kernel(subject, target, threads=1, watch=lambda done, _of: done < 3)
        assert entry.key == kernel_key(subject.kind, subject.kernel, target)
        assert entry.schedule in choices
        assert entry.default == choices[0]
        assert entry.seconds <= entry.default_seconds
