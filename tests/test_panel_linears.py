"""Kernels over panels compute what linear layers do, whatever the shapes and the schedules."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_mlir import ir
from torch_mlir.dialects import arith, func, math
from torch_mlir.extras import types as T

from llmc.dialects import JoinFloatOp, PackedLinearOp, RMSNormOp
from llmc.dialects.attributes import i64
from llmc.dialects.float_parts import PARTS, join, split
from llmc.dialects.index_notation import pointwise, size, slice_of
from llmc.pipelines.kernels.pair_instructions import LANES, PLAIN
from llmc.pipelines.kernels.panel_linear import panel_linear
from llmc.pipelines.passes import (
    DispatchKernels,
    LowerLlmc,
    NarrowActivations,
    OutlineLinears,
    ScheduleKernels,
)
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.functions import functions
from llmc.pipelines.schedules.panel_choices import choose_panel_matvec
from llmc.pipelines.schedules.transform_ops.sum_apart import CHAIN
from llmc.pipelines.schedules.workgroups import panels_of_workgroup
from llmc.pipelines.targets.cpu import STREAM_AHEAD, CPUTarget
from tests.scheduled import KernelCase, call, new_context

PAIR_INSTRUCTION = CPUTarget().pair_instruction
_FEW = settings(max_examples=6, derandomize=True)
_ELEMENTS = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}


@st.composite
def _layers(draw: st.DrawFn) -> tuple[np.ndarray, int]:
    """A weight `[P, K, J]`, and a divisor of P."""
    together, groups = draw(st.integers(1, 5)), draw(st.integers(2, 4))
    inputs, columns = draw(st.integers(1, 70)), draw(st.sampled_from([4, 8, 16]))
    stored = draw(st.sampled_from(sorted(_ELEMENTS)))
    weight = _random(together * groups, inputs, columns).astype(_ELEMENTS[stored])
    return weight, together


def _random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def _compute(
    build, arguments: list[np.ndarray], is_open: bool, schedule: str = "", *before: Pass
) -> np.ndarray:
    """What `build` makes of arguments; those of three dimensions have an open second one, or 1."""
    context = new_context()
    with context, ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            types = [_type(argument, is_open) for argument in arguments]
            function = func.FuncOp("layer", (types, []))
        with ir.InsertionPoint(function.add_entry_block()):
            result = build(*function.arguments)
            func.ReturnOp([result])
        whole = ir.FunctionType.get(types, [result.type])
        function.attributes["function_type"] = ir.TypeAttr.get(whole)
        for pass_ in (
            *before,
            OutlineLinears(),
            LowerLlmc(),
            ScheduleKernels(schedule=schedule),
            DispatchKernels(),
        ):
            pass_.apply(module)
            module.operation.verify()
        (computed,) = call(module, "layer", arguments)
    return computed


def _type(argument: np.ndarray, is_open: bool) -> ir.RankedTensorType:
    elements = {**_ELEMENTS, "i8": np.int8, "i16": np.int16}
    names = {np.dtype(element): name for name, element in elements.items()}
    shape = [str(extent) for extent in argument.shape]
    if argument.ndim == 3 and argument.shape[0] == 1 and is_open:
        shape[1] = "?"
    return ir.Type.parse(f"tensor<{'x'.join([*shape, names[argument.dtype]])}>")


def _run(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray, schedule: str, *before: Pass
) -> np.ndarray:
    """What a layer makes of x, of one row or of a number that it is not told."""

    def build(x: ir.Value, weight: ir.Value, bias: ir.Value) -> ir.Value:
        shape = [*x.type.shape[:-1], bias.type.shape[0]]
        out = ir.RankedTensorType.get(shape, bias.type.element_type)
        return PackedLinearOp(x, weight, i64(1), out, bias=bias).out

    return _compute(build, [x[None], weight, bias], len(x) > 1, schedule, *before)[0]


def _expected(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    wide = weight.astype(np.float64)
    return PackedLinearOp.reference(x.astype(np.float64), wide, len(bias), bias)


@_FEW
@given(
    layer=_layers(),
    missing=st.integers(0, 3),
    tokens=st.integers(2, 40),
    rows=st.integers(1, 12),
    unroll=st.integers(1, 3),
    chain=st.integers(1, 70),
)
def test_panel_matmul(layer, missing, tokens, rows, unroll, chain):
    weight, panels = layer
    x, bias = _random(tokens, weight.shape[1]), _random(weight.shape[0] * weight.shape[2] - missing)
    schedule = f"panel_matmul{{rows={rows} panels={panels} unroll={unroll} chain={chain}}}"
    actual = _run(x, weight, bias, schedule)
    np.testing.assert_allclose(actual, _expected(x, weight, bias), rtol=0, atol=3e-5)


@pytest.mark.skipif(PAIR_INSTRUCTION == PLAIN, reason="this CPU multiplies no pairs of bf16")
@_FEW
@given(
    panels=st.integers(1, 3),
    groups=st.integers(2, 4),
    columns=st.sampled_from(LANES.get(PAIR_INSTRUCTION, ())),
    pairs=st.integers(1, 20),
    chains=st.integers(1, 3),
    tokens=st.integers(2, 40),
    rows=st.integers(1, 9),
    unroll=st.integers(1, 3),
)
def test_pairs_of_bf16(panels, groups, columns, pairs, chains, tokens, rows, unroll):
    shape = panels * groups, 2 * pairs * chains, columns
    x, weight = (_random(*each).astype(_ELEMENTS["bf16"]) for each in ((tokens, shape[1]), shape))
    parameters = f"rows={rows} panels={panels} unroll={unroll} chain={2 * pairs}"
    schedule = f"panel_matmul{{{parameters} instruction={PAIR_INSTRUCTION}}}"
    bias = _random(panels * groups * columns)
    actual = _run(x, weight, bias, schedule)
    expected = _expected(x.astype(np.float32), weight, bias)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=3e-5)


@pytest.mark.parametrize(
    ("arch", "features", "instruction"),
    [
        ("aarch64", ("bf16", "dotprod", "i8mm"), "bfdot"),
        ("aarch64", ("dotprod", "i8mm"), PLAIN),
        ("x86_64", ("avx2", "avx512bf16", "avx512vnni"), "vdpbf16ps"),
        ("x86_64", ("avx2", "avx512vnni"), PLAIN),
    ],
)
def test_a_cpu_that_multiplies_pairs_of_bf16_does(arch, features, instruction):
    target = CPUTarget("some", arch)
    vars(target)["_described"] = ("some", features)  # as LLVM would describe it
    assert target.pair_instruction == instruction


@pytest.mark.parametrize("inputs", [2, 96, 1056, 32 * 131])
@pytest.mark.parametrize("tokens", [1, 9])
def test_activations_are_rounded_for_several_rows_alone(tokens, inputs):
    x, bias = _random(tokens, inputs), _random(64)
    weight = _random(4, inputs, 16).astype(_ELEMENTS["bf16"])
    actual = _run(x, weight, bias, "", NarrowActivations(instruction=PAIR_INSTRUCTION))
    is_rounded = tokens > 1 and inputs > 2 and 16 in LANES.get(PAIR_INSTRUCTION, ())
    read = x.astype(_ELEMENTS["bf16"]).astype(np.float32) if is_rounded else x
    np.testing.assert_allclose(actual, _expected(read, weight, bias), rtol=0, atol=1e-4)


@_FEW
@given(
    layer=_layers(),
    missing=st.integers(0, 3),
    rounds=st.integers(1, 2),
    unroll=st.integers(1, 3),
    ahead=st.integers(1, 40),
    chain=st.integers(1, 70),
)
def test_panel_matvec(layer, missing, rounds, unroll, ahead, chain):
    weight, panels = layer
    weight = np.concatenate([weight] * rounds)
    x, bias = _random(1, weight.shape[1]), _random(weight.shape[0] * weight.shape[2] - missing)
    options = f"panels={panels} rounds={rounds} unroll={unroll} ahead={ahead} chain={chain} sums=1"
    schedule = f"panel_matvec{{{options}}}"
    actual = _run(x, weight, bias, schedule)
    np.testing.assert_allclose(actual, _expected(x, weight, bias), rtol=0, atol=3e-5)


@_FEW
@given(
    columns=st.sampled_from([4, 8, 16]),
    sums=st.integers(2, 9),
    chain=st.integers(1, 20),
    chains=st.integers(1, 3),
    unroll=st.integers(1, 3),
)
def test_sums_of_a_column_side_by_side(columns, sums, chain, chains, unroll):
    weight = _random(2, sums * chain * chains, columns)
    x, bias = _random(1, weight.shape[1]), _random(2 * columns)
    schedule = f"panel_matvec{{panels=1 rounds=1 unroll={unroll} chain={chain} sums={sums}}}"
    actual = _run(x, weight, bias, schedule)
    np.testing.assert_allclose(actual, _expected(x, weight, bias), rtol=0, atol=3e-5)


@pytest.mark.parametrize("inputs", [1, 7, 70, 577, 4616, 4096])
def test_any_length_where_panels_are_read_one_by_one(inputs):
    weight = _random(6, inputs, 8) / inputs**0.5
    x, bias = _random(1, inputs), _random(48)

    def build(x: ir.Value, weight: ir.Value) -> ir.Value:
        return panel_linear(x, [weight], x.type.element_type)[0]

    with new_context(), ir.Location.unknown():
        module = KernelCase("panel_matvec", build, [x, weight]).module()
        chosen = choose_panel_matvec(functions(module)[0], CPUTarget("znver4"))
    actual = _run(x, weight, bias, chosen.text)
    np.testing.assert_allclose(actual, _expected(x, weight, bias), rtol=0, atol=3e-5)


@pytest.mark.parametrize("element", [np.int8, np.float16, np.float32])
def test_memory_is_asked_for_as_far_ahead_however_narrow_rows_are(element):
    def build(x: ir.Value, weight: ir.Value) -> ir.Value:
        return panel_linear(x, [weight], x.type.element_type)[0]

    arguments = [_random(1, 576), np.zeros((64, 576, 8), element)]
    with new_context(), ir.Location.unknown():
        module = KernelCase("panel_matvec", build, arguments).module()
        parameters = choose_panel_matvec(functions(module)[0], CPUTarget("znver4")).parameters
    assert parameters.ahead * 8 * np.dtype(element).itemsize == STREAM_AHEAD


@pytest.mark.parametrize("outputs", [1, 7, 8])
@pytest.mark.parametrize("stored", sorted(_ELEMENTS))
def test_single_panel(outputs, stored):
    x, bias = _random(1, 70), _random(outputs)
    weight = _random(1, 70, 8).astype(_ELEMENTS[stored])
    actual = _run(x, weight, bias, "")
    np.testing.assert_allclose(actual, _expected(x, weight, bias), rtol=0, atol=3e-5)


@pytest.mark.parametrize(("panels", "columns"), [(65536, 4), (16021, 8), (1, 1024)])
def test_many_outputs_are_shared_by_workgroups_that_a_schedule_may_have(panels, columns):
    def build(x: ir.Value, weight: ir.Value) -> ir.Value:
        return panel_linear(x, [weight], x.type.element_type)[0]

    arguments = [_random(1, 1), np.empty((panels, 1, columns), np.float32)]
    with new_context(), ir.Location.unknown():
        module = KernelCase("panel_matvec", build, arguments).module()
        (kernel,) = functions(module)
        parameters = choose_panel_matvec(kernel, CPUTarget()).parameters
    assert panels % (parameters.panels * parameters.rounds) == 0
    assert columns % (parameters.columns or columns) == 0


@pytest.mark.parametrize(
    ("panels", "cores", "most"), [(192, 2, 96), (36, 8, 6), (63, 2, 36), (37, 2, 19), (2, 1, 2)]
)
def test_no_core_has_many_more_panels_than_others(panels, cores, most):
    each = panels_of_workgroup(panels, panels * 18432, cores)
    assert panels % each == 0 and panels // each > 1
    assert -(-panels // each // cores) * each <= most


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("tokens", [1, 9])
@pytest.mark.parametrize("stored", ["f16", "f32"])
def test_a_weight_in_parts_is_joined(stored, tokens, whole):
    x, weight = _random(tokens, 150), _random(6, 150, 8).astype(_ELEMENTS[stored])
    parts = [split(weight, part) for part in PARTS[: 1 + whole]]

    def build(x: ir.Value, *parts: ir.Value) -> ir.Value:
        joined = ir.RankedTensorType.get(parts[0].type.shape, x.type.element_type)
        out = ir.RankedTensorType.get([*x.type.shape[:-1], 48], x.type.element_type)
        low = parts[1] if whole else None
        return PackedLinearOp(x, JoinFloatOp(parts[0], joined, low=low).out, i64(1), out).out

    actual = _compute(build, [x[None], *parts], tokens > 1)[0]
    read = weight if whole else join(parts[0], None)
    expected = PackedLinearOp.reference(x.astype(np.float64), read.astype(np.float64), 48)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=3e-5)


@pytest.mark.parametrize("tokens", [1, 9])
def test_rounding_errors_do_not_grow_with_the_length_of_sums(tokens):
    """Of 6144 numbers alike: a single chain of additions rounds most of them the same way."""
    inputs, third = 6144, np.float32(1 / 3)
    weight = np.full((4, inputs, 8), third)
    actual = _run(np.ones((tokens, inputs), np.float32), weight, np.zeros(32, np.float32), "")
    expected = inputs * np.float64(third)
    additions = CHAIN + inputs // CHAIN
    assert np.abs(actual - expected).max() <= additions * 2.0**-24 * expected


@pytest.mark.parametrize("tokens", [1, 9])
def test_surroundings(tokens):
    """The norm of the rows, gating of one half of the outputs by the other, and a sum."""
    x, scale, residual = _random(tokens, 48), _random(48), _random(tokens, 64)
    weight = _random(16, 48, 8)

    def build(x: ir.Value, scale: ir.Value, weight: ir.Value, residual: ir.Value) -> ir.Value:
        out = ir.RankedTensorType.get([*x.type.shape[:-1], 128], x.type.element_type)
        f64 = T.f64()
        epsilon, offset = ir.FloatAttr.get(f64, 1e-5), ir.FloatAttr.get(f64, 0.0)
        normed = RMSNormOp(x, epsilon, offset, x.type, weight=scale).out
        y = PackedLinearOp(normed, weight, i64(1), out).out
        length = size(y, 1)
        gate, up = (slice_of(y, [0, 0, at], [1, length, 64], [1, length, 64]) for at in (0, 64))
        body = lambda g, u, r, _: arith.addf(r, arith.mulf(math.tanh(g), u))  # noqa: E731
        return pointwise("btn,btn,btn->btn", body, gate, up, residual)

    actual = _compute(build, [x[None], scale, weight, residual[None]], tokens > 1)[0]
    normed = RMSNormOp.reference(x.astype(np.float64), scale.astype(np.float64), 1e-5)
    gate, up = np.split(PackedLinearOp.reference(normed, weight.astype(np.float64), 128), 2, -1)
    np.testing.assert_allclose(actual, np.tanh(gate) * up + residual, rtol=0, atol=1e-4)
