"""Kernels over panels compute what linear layers do, whatever the shapes and the schedules."""

import ml_dtypes
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_mlir import ir
from torch_mlir.dialects import func

from llmc.dialects import PackedLinearOp
from llmc.dialects.attributes import i64
from llmc.pipelines.passes import DispatchKernels, OutlineLinears, ScheduleKernels
from tests.scheduled import call, new_context

_FEW = settings(max_examples=6, deadline=None, derandomize=True)
_ELEMENTS = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}


@st.composite
def _layers(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, str, int]:
    """A weight `[P, K, J]`, a bias or none, how weights are stored, and a divisor of P."""
    together, groups = draw(st.integers(1, 5)), draw(st.integers(2, 4))
    inputs, columns = draw(st.integers(1, 70)), draw(st.sampled_from([4, 8, 16]))
    stored = draw(st.sampled_from(sorted(_ELEMENTS)))
    weight = _random(together * groups, inputs, columns).astype(_ELEMENTS[stored])
    return weight, stored, together


def _random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def _run(x: np.ndarray, weight: np.ndarray, stored: str, bias: np.ndarray, schedule: str):
    """What a module computes of x of one row, or of a number that it is not told."""
    f32, open_ = "f32", "?" if len(x) > 1 else "1"
    panels, inputs, columns = weight.shape
    outputs = len(bias)
    context = new_context()
    with context, ir.Location.unknown():
        types = [
            ir.Type.parse(f"tensor<1x{open_}x{inputs}x{f32}>"),
            ir.Type.parse(f"tensor<{panels}x{inputs}x{columns}x{stored}>"),
            ir.Type.parse(f"tensor<{outputs}x{f32}>"),
        ]
        out = ir.Type.parse(f"tensor<1x{open_}x{outputs}x{f32}>")
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            function = func.FuncOp("layer", (types, [out]))
        with ir.InsertionPoint(function.add_entry_block()):
            x_, weight_, bias_ = function.arguments
            func.ReturnOp([PackedLinearOp(x_, weight_, i64(1), out, bias=bias_).out])
        for pass_ in (OutlineLinears(), ScheduleKernels(schedule=schedule), DispatchKernels()):
            pass_.apply(module)
            module.operation.verify()
        (result,) = call(module, "layer", [x[None], weight, bias])
    return result[0]


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
)
def test_panel_matmul(layer, missing, tokens, rows, unroll):
    weight, stored, panels = layer
    x, bias = _random(tokens, weight.shape[1]), _random(weight.shape[0] * weight.shape[2] - missing)
    schedule = f"panel_matmul{{rows={rows} panels={panels} unroll={unroll}}}"
    actual = _run(x, weight, stored, bias, schedule)
    np.testing.assert_allclose(actual, _expected(x, weight, bias), rtol=0, atol=3e-5)


@_FEW
@given(
    layer=_layers(),
    missing=st.integers(0, 3),
    rounds=st.integers(1, 2),
    unroll=st.integers(1, 3),
    ahead=st.integers(1, 40),
)
def test_panel_matvec(layer, missing, rounds, unroll, ahead):
    weight, stored, panels = layer
    weight = np.concatenate([weight] * rounds)
    x, bias = _random(1, weight.shape[1]), _random(weight.shape[0] * weight.shape[2] - missing)
    schedule = f"panel_matvec{{panels={panels} rounds={rounds} unroll={unroll} ahead={ahead}}}"
    actual = _run(x, weight, stored, bias, schedule)
    np.testing.assert_allclose(actual, _expected(x, weight, bias), rtol=0, atol=3e-5)
