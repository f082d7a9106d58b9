"""Kernels of rows compute what a layer does between its other kernels, whatever the rows."""

from collections.abc import Callable

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch_mlir import ir
from torch_mlir.dialects import arith, math

from llmc.dialects.index_notation import (
    collapse,
    constant,
    expand,
    pointwise,
    reduce,
    size,
    slice_of,
    slice_of_rows,
)
from llmc.pipelines.passes import OutlineRows
from tests.layer_functions import compute_by_kernels

_LAYER = 1
_LEFT = ("arith.constant", "flow.", "func.", "tensor.")
_LOWEST = float(np.finfo(np.float32).min)


def _total(x: ir.Value) -> ir.Value:
    return reduce("tn->t", lambda x, sum_: arith.addf(sum_, x), 0.0, x)


def _centred(x: ir.Value) -> ir.Value:
    count = constant(float(x.type.shape[1]), x.type.element_type)
    return pointwise(
        "tn,t->tn", lambda x, sum_, _: arith.subf(x, arith.divf(sum_, count)), x, _total(x)
    )


def _layer_norm(x: ir.Value, weights: ir.Value) -> ir.Value:
    """One sum is of what another makes, and the weight one of many."""
    x = _centred(x)
    count = constant(float(x.type.shape[1]), x.type.element_type)
    extents = [1, x.type.shape[1]]
    weight = slice_of(weights, [weights.owner.arguments[2], 0], extents, extents[1:])

    def square_add(x: ir.Value, sum_: ir.Value) -> ir.Value:
        return arith.addf(sum_, arith.mulf(x, x))

    def scale(x: ir.Value, squares: ir.Value, weight: ir.Value, _: ir.Value) -> ir.Value:
        variance = arith.addf(arith.divf(squares, count), constant(1.0, x.type))
        return arith.mulf(arith.mulf(x, math.rsqrt(variance)), weight)

    squares = reduce("tn->t", square_add, 0.0, x)
    return pointwise("tn,t,n->tn", scale, x, squares, weight)


def _softmax(x: ir.Value, _: ir.Value) -> ir.Value:
    most = reduce("tn->t", lambda x, most: arith.maximumf(x, most), _LOWEST, x)
    powers = pointwise("tn,t->tn", lambda x, m, _: math.exp(arith.subf(x, m)), x, most)
    return pointwise("tn,t->tn", lambda x, s, _: arith.divf(x, s), powers, _total(powers))


def _reshaped(x: ir.Value, _: ir.Value) -> ir.Value:
    row = expand(x, [[size(x, 0)], [1, x.type.shape[1]]])
    return collapse(pointwise("btn->btn", lambda x, _: arith.negf(x), row), [1, 2])


def _from_last(x: ir.Value, _: ir.Value) -> ir.Value:
    """A part that is a single element."""
    last = slice_of(x, [0, x.type.shape[1] - 1], [1, 1], [1])
    return pointwise("tn,t->tn", _minus, x, last)


def _from_last_of_each(x: ir.Value, _: ir.Value) -> ir.Value:
    return pointwise("tn,t1->tn", _minus, x, slice_of_rows(x, x.type.shape[1] - 1, 1))


def _minus(a: ir.Value, b: ir.Value, _: ir.Value) -> ir.Value:
    return arith.subf(a, b)


def _parts(x: ir.Value, _: ir.Value) -> ir.Value:
    """Each element but the first minus the one before."""
    before, after = (slice_of_rows(x, at, x.type.shape[1] - 1) for at in (0, 1))
    return pointwise("tn,tn->tn", lambda a, b, _: arith.subf(b, a), before, after)


def _normed(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1) * weights[_LAYER]


def _shares(x: np.ndarray, _: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


_TWINS: dict[Callable, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    _layer_norm: _normed,
    _softmax: _shares,
    _reshaped: lambda x, _: -x,
    _from_last_of_each: lambda x, _: x - x[:, -1:],
    _from_last: lambda x, _: x - x[:, -1:],
}


@settings(max_examples=6, derandomize=True)
@given(
    steps=st.lists(st.sampled_from(list(_TWINS)), min_size=1, max_size=4),
    length=st.integers(3, 200),
)
@example(steps=[_layer_norm, _softmax], length=640)
@example(steps=[_softmax], length=3)
@example(steps=[_reshaped, _from_last], length=40)
def test_values_of_random_steps(steps, length):
    _check(steps, length, rows=1, open_dims={})


@settings(max_examples=6, derandomize=True)
@given(
    steps=st.lists(st.sampled_from(list(_TWINS)[:-1]), min_size=1, max_size=4),
    length=st.integers(3, 200),
    rows=st.integers(1, 9),
)
@example(steps=[_layer_norm, _softmax], length=640, rows=5)
@example(steps=[_reshaped, _from_last_of_each, _softmax], length=40, rows=3)
def test_values_of_several_rows(steps, length, rows):
    """Where none is dropped that is but one element of each."""
    _check(steps, length, rows, open_dims={0: 0})


def _check(steps: list[Callable], length: int, rows: int, open_dims: dict[int, int]) -> None:
    random = np.random.default_rng(length)
    x, weights = (random.standard_normal((count, length)).astype(np.float32) for count in (rows, 3))

    def build(x: ir.Value, weights: ir.Value, _: ir.Value) -> list[ir.Value]:
        made = [x]
        for step in steps:
            made.append(step(made[-1], weights))
        # Some are kernels of their own, since others read them, and some are not.
        return [*made[2::2], _parts(made[-1], weights)]

    expected = [x.astype(np.float64)]
    for step in steps:
        expected.append(_TWINS[step](expected[-1], weights.astype(np.float64)))
    actual = compute_by_kernels(build, [x, weights], _LAYER, [OutlineRows()], _LEFT, open_dims)
    for found, right in zip(actual, [*expected[2::2], np.diff(expected[-1])], strict=True):
        np.testing.assert_allclose(found, right, rtol=0, atol=1e-5)
