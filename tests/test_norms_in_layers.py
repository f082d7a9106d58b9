"""Kernels of rows compute the norms of any number of them."""

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch_mlir import ir
from torch_mlir.dialects import arith
from torch_mlir.extras import types as T

from llmc.dialects import LayerNormOp, RMSNormOp
from llmc.dialects.index_notation import letters, pointwise, slice_of
from llmc.pipelines.passes import LowerLlmc, OutlineRows
from tests.layer_functions import compute_by_kernels

_LAYER = 1
_LEFT = ("arith.constant", "flow.", "func.", "tensor.")


def _add(a: ir.Value, b: ir.Value, _: ir.Value) -> ir.Value:
    return arith.addf(a, b)


def _f64(value: float) -> ir.FloatAttr:
    return ir.FloatAttr.get(T.f64(), value)


@settings(max_examples=6, derandomize=True)
@given(
    leading=st.sampled_from([(2,), (7,), (1, 3), (3, 1), (1,)]),
    length=st.integers(3, 200),
    is_rms=st.booleans(),
    weighted=st.booleans(),
    added=st.booleans(),
)
@example(leading=(1, 6), length=640, is_rms=True, weighted=True, added=True)
@example(leading=(3,), length=97, is_rms=False, weighted=True, added=True)
@example(leading=(1, 2), length=64, is_rms=False, weighted=False, added=False)
def test_values_of_norms(leading, length, is_rms, weighted, added):
    random = np.random.default_rng(length)
    x, rest = random.standard_normal((2, *leading, length)).astype(np.float32)
    weights = random.standard_normal((3, length)).astype(np.float32)

    def build(x: ir.Value, rest: ir.Value, weights: ir.Value, number: ir.Value) -> list[ir.Value]:
        y = norm(x, weights, number)
        loops = letters(x.type.rank)
        return [pointwise(f"{loops},{loops}->{loops}", _add, rest, y) if added else y]

    def norm(x: ir.Value, weights: ir.Value, number: ir.Value) -> ir.Value:
        weight = None
        if weighted:
            weight = slice_of(weights, [number, 0], [1, length], [length])
        if is_rms:
            offset = _f64(1.0 if weighted else 0.0)
            return RMSNormOp(x, _f64(0.5), offset, x.type, weight=weight).out
        return LayerNormOp(x, _f64(0.5), x.type, weight=weight, bias=weight).out

    outline = [LowerLlmc(keep_kernels=True), OutlineRows()]
    rows = leading.index(max(leading))
    open_dims = {0: rows, 1: rows}
    (actual,) = compute_by_kernels(build, [x, rest, weights], _LAYER, outline, _LEFT, open_dims)
    wide, weight = x.astype(np.float64), weights[_LAYER].astype(np.float64)
    if not is_rms:
        wide = wide - wide.mean(-1, keepdims=True)
    expected = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 0.5)
    if weighted:
        expected = expected * (1 + weight) if is_rms else expected * weight + weight
    if added:
        expected = expected + rest
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5)
