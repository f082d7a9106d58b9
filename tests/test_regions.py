"""Kernels of regions compute what a layer does between its other kernels, whatever the shapes."""

from collections.abc import Callable

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch_mlir import ir
from torch_mlir.dialects import arith, linalg, tensor

from llmc.dialects.index_notation import (
    constant,
    index,
    insert,
    loop_index,
    pointwise,
    reduce,
    slice_of,
)
from llmc.pipelines.passes import OutlineRegions
from tests.layer_functions import compute_by_kernels

_LAYER = 1
# A transposition of one head shows it as it lies.
_LEFT = (
    *("arith.constant", "flow.", "func."),
    *("tensor.empty", "tensor.collapse_shape", "tensor.expand_shape"),
    *("linalg.transpose", "linalg.yield"),
)


def _negated(x: ir.Value) -> ir.Value:
    return pointwise("hd->hd", lambda e, _: arith.negf(e), x)


def _rotated(x: ir.Value) -> ir.Value:
    """The halves of each head in the other order, one negated."""
    heads, width = x.type.shape
    half = [heads, width // 2]
    low, high = (slice_of(x, [0, at], half, half) for at in (0, width // 2))
    return tensor.concat(x.type, 1, [_negated(high), low])


def _gathered(x: ir.Value) -> ir.Value:
    """Elements at even places, then those at odd ones."""
    heads, width = x.type.shape
    half = ir.RankedTensorType.get([heads, width // 2], x.type.element_type)
    parts = [
        tensor.extract_slice(half, x, [], [], [], [0, at], list(half.shape), [1, 2])
        for at in (0, 1)
    ]
    return tensor.concat(x.type, 1, parts)


def _first_for_all(x: ir.Value) -> ir.Value:
    """The second half of the first head in the place of all others'."""
    heads, width = x.type.shape
    half = [heads, width // 2]
    shared = slice_of(x, [0, width // 2], [1, width // 2], [width // 2])
    repeated = pointwise("d->hd", lambda e, _: e, shared, h=heads)
    return insert(repeated, x, [0, width // 2], half)


def _across(x: ir.Value) -> ir.Value:
    """Heads and channels change places, in the same shape."""
    heads, width = x.type.shape
    room = tensor.empty([width, heads], x.type.element_type)
    turned = linalg.transpose(x, outs=[room], permutation=[1, 0])
    flat = tensor.collapse_shape(
        ir.RankedTensorType.get([heads * width], x.type.element_type), turned, [[0, 1]]
    )
    return tensor.expand_shape(x.type, flat, [[0, 1]], [], [heads, width])


def _shares(x: ir.Value) -> ir.Value:
    """A constant, and what each head is reduced to."""
    one = constant(1.0, x.type.element_type)
    squares = reduce("hd->h", lambda e, sum_: arith.addf(sum_, arith.mulf(e, e)), 0.0, x)
    return pointwise("hd,h->hd", lambda e, s, _: arith.divf(e, arith.addf(s, one)), x, squares)


def _looked_up(x: ir.Value) -> ir.Value:
    """The heads in the other order, read one element at a time."""
    last = index(x.type.shape[0] - 1)

    def body(_here: ir.Value, _old: ir.Value) -> ir.Value:
        head, channel = loop_index(0), loop_index(1)
        return tensor.extract(x, [arith.subi(last, head), channel])

    return pointwise("hd->hd", body, x)


def _halves(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    low, high = np.split(x, 2, axis=1)
    return low, high


def _rotated_twin(x: np.ndarray) -> np.ndarray:
    low, high = _halves(x)
    return np.concatenate([-high, low], axis=1)


def _first_for_all_twin(x: np.ndarray) -> np.ndarray:
    low, high = _halves(x)
    return np.concatenate([low, np.broadcast_to(high[:1], high.shape)], axis=1)


_TWINS: dict[Callable[[ir.Value], ir.Value], Callable[[np.ndarray], np.ndarray]] = {
    _negated: np.negative,
    _rotated: _rotated_twin,
    _gathered: lambda x: np.concatenate([x[:, ::2], x[:, 1::2]], axis=1),
    _first_for_all: _first_for_all_twin,
    _across: lambda x: x.T.reshape(x.shape),
    _shares: lambda x: x / ((x**2).sum(1, keepdims=True) + 1),
    _looked_up: lambda x: x[::-1],
}


@settings(max_examples=6, derandomize=True)
@given(
    steps=st.lists(st.sampled_from(list(_TWINS)), min_size=1, max_size=5),
    heads=st.integers(1, 5),
    half=st.integers(1, 40),
)
@example(steps=[*_TWINS], heads=3, half=4)
@example(steps=[_shares, _shares, _across], heads=1, half=1)
@example(steps=[_rotated, _across], heads=128, half=64)
def test_values_of_random_steps(steps, heads, half):
    random = np.random.default_rng(half)
    x, weights = (
        random.standard_normal([*count, heads, 2 * half]).astype(np.float32) for count in ([], [3])
    )

    def build(x: ir.Value, weights: ir.Value, layer: ir.Value) -> list[ir.Value]:
        extents = [heads, 2 * half]
        weight = slice_of(weights, [layer, 0, 0], [1, *extents], extents)
        made = [pointwise("hd,hd->hd", lambda a, b, _: arith.mulf(a, b), x, weight)]
        for step in steps:
            made.append(step(made[-1]))
        return [made[-1], tensor.concat(_twice(x.type), 0, [made[0], made[-1]])]

    first = x.astype(np.float64) * weights[_LAYER]
    last = first
    for step in steps:
        last = _TWINS[step](last)
    outline = [OutlineRegions()]
    found = compute_by_kernels(build, [x, weights], _LAYER, outline, _LEFT)
    for actual, expected in zip(found, [last, np.concatenate([first, last])], strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


def _twice(type_: ir.RankedTensorType) -> ir.RankedTensorType:
    heads, width = type_.shape
    return ir.RankedTensorType.get([2 * heads, width], type_.element_type)
