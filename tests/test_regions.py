"""Kernels of regions compute what a layer does between its other kernels, whatever the shapes."""

from collections.abc import Callable

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch_mlir import ir
from torch_mlir.dialects import arith, linalg, tensor

from llmc.dialects.index_notation import (
    Size,
    collapse,
    constant,
    expand,
    index,
    insert,
    loop_index,
    pointwise,
    reduce,
    sizes,
    slice_of,
)
from llmc.pipelines.passes import OutlineRegions
from tests.layer_functions import compute_by_kernels

_LAYER = 1
# A transposition of one head shows it as it lies.
_LEFT = (
    *("arith.constant", "flow.", "func."),
    *("tensor.collapse_shape", "tensor.dim", "tensor.empty", "tensor.expand_shape"),
    *("linalg.transpose", "linalg.yield"),
)


def _negated(x: ir.Value) -> ir.Value:
    loops = _loops(x)
    return pointwise(f"{loops}->{loops}", lambda e, _: arith.negf(e), x)


def _rotated(x: ir.Value) -> ir.Value:
    """The halves of each head in the other order, one negated."""
    low, high = _two(x, 1)
    return tensor.concat(x.type, x.type.rank - 1, [_negated(high), low])


def _gathered(x: ir.Value) -> ir.Value:
    """Elements at even places, then those at odd ones."""
    return tensor.concat(x.type, x.type.rank - 1, _two(x, 2))


def _first_for_all(x: ir.Value) -> ir.Value:
    """The second half of the first head in the place of all others'."""
    *rows, heads, width = sizes(x)
    start = [*(0 for _ in rows), 0, width // 2]
    shared = slice_of(x, start, [*rows, 1, width // 2], [*rows, width // 2])
    loops = _loops(x)
    repeated = pointwise(f"{loops[:-2]}d->{loops}", lambda e, _: e, shared, h=heads)
    return insert(repeated, x, start, [*rows, heads, width // 2])


def _across(x: ir.Value) -> ir.Value:
    """Heads and channels change places, in the same shape."""
    *rows, heads, width = sizes(x)
    room = tensor.empty([*rows, width, heads], x.type.element_type)
    last = [*range(len(rows)), len(rows) + 1, len(rows)]
    (turned,) = linalg.transpose(x, outs=[room], permutation=last).results
    return expand(
        collapse(turned, [*(1 for _ in rows), 2]), [*([row] for row in rows), [heads, width]]
    )


def _shares(x: ir.Value) -> ir.Value:
    """A constant, and what each head is reduced to."""
    one, loops = constant(1.0, x.type.element_type), _loops(x)
    squares = reduce(
        f"{loops}->{loops[:-1]}", lambda e, sum_: arith.addf(sum_, arith.mulf(e, e)), 0.0, x
    )
    return pointwise(
        f"{loops},{loops[:-1]}->{loops}",
        lambda e, s, _: arith.divf(e, arith.addf(s, one)),
        x,
        squares,
    )


def _looked_up(x: ir.Value) -> ir.Value:
    """The heads in the other order, read one element at a time."""
    *rows, head, channel = range(x.type.rank)
    last = index(x.type.shape[head] - 1)

    def body(_here: ir.Value, _old: ir.Value) -> ir.Value:
        from_last = arith.subi(last, loop_index(head))
        return tensor.extract(x, [*map(loop_index, rows), from_last, loop_index(channel)])

    return pointwise(f"{_loops(x)}->{_loops(x)}", body, x)


def _loops(x: ir.Value) -> str:
    """Those over heads and channels, and over rows where `x` has several."""
    return "thd"[-x.type.rank :]


def _two(x: ir.Value, stride: int) -> list[ir.Value]:
    """Two halves of all heads, whose channels follow each other or are `stride` apart."""
    *extents, width = sizes(x)
    half = [*x.type.shape[:-1], width // 2]
    ones, open_extents = [1] * len(extents), [each for each in extents if not isinstance(each, int)]
    return [
        tensor.extract_slice(
            ir.RankedTensorType.get(half, x.type.element_type),
            x,
            [],
            open_extents,
            [],
            [*(0 for _ in extents), start],
            half,
            [*ones, stride],
        )
        for start in (0, width // 2 if stride == 1 else 1)
    ]


def _halves(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    low, high = np.split(x, 2, axis=-1)
    return low, high


def _rotated_twin(x: np.ndarray) -> np.ndarray:
    low, high = _halves(x)
    return np.concatenate([-high, low], axis=-1)


def _first_for_all_twin(x: np.ndarray) -> np.ndarray:
    low, high = _halves(x)
    return np.concatenate([low, np.broadcast_to(high[..., :1, :], high.shape)], axis=-1)


_TWINS: dict[Callable[[ir.Value], ir.Value], Callable[[np.ndarray], np.ndarray]] = {
    _negated: np.negative,
    _rotated: _rotated_twin,
    _gathered: lambda x: np.concatenate([x[..., ::2], x[..., 1::2]], axis=-1),
    _first_for_all: _first_for_all_twin,
    _across: lambda x: x.swapaxes(-1, -2).reshape(x.shape),
    _shares: lambda x: x / ((x**2).sum(-1, keepdims=True) + 1),
    _looked_up: lambda x: x[..., ::-1, :],
}


@settings(max_examples=8, derandomize=True)
@given(
    steps=st.lists(st.sampled_from(list(_TWINS)), min_size=1, max_size=5),
    rows=st.none() | st.integers(1, 5),
    heads=st.integers(1, 5),
    half=st.integers(1, 40),
)
@example(steps=[*_TWINS], rows=None, heads=3, half=4)
@example(steps=[*_TWINS], rows=3, heads=3, half=4)
@example(steps=[_shares, _shares, _across], rows=None, heads=1, half=1)
@example(steps=[_shares, _shares, _across], rows=2, heads=1, half=1)
@example(steps=[_rotated, _across], rows=None, heads=128, half=64)
def test_values_of_random_steps(steps, rows, heads, half):
    random = np.random.default_rng(half)
    leading = [] if rows is None else [rows]
    x, weights = (
        random.standard_normal([*count, heads, 2 * half]).astype(np.float32)
        for count in (leading, [3])
    )

    def build(x: ir.Value, weights: ir.Value, layer: ir.Value) -> list[ir.Value]:
        extents: list[Size] = [heads, 2 * half]
        weight = slice_of(weights, [layer, 0, 0], [1, *extents], extents)
        loops = _loops(x)
        made = [pointwise(f"{loops},hd->{loops}", lambda a, b, _: arith.mulf(a, b), x, weight)]
        for step in steps:
            made.append(step(made[-1]))
        twice = [*x.type.shape[:-2], 2 * heads, 2 * half]
        both = ir.RankedTensorType.get(twice, x.type.element_type)
        return [made[-1], tensor.concat(both, len(leading), [made[0], made[-1]])]

    first = x.astype(np.float64) * weights[_LAYER]
    last = first
    for step in steps:
        last = _TWINS[step](last)
    outline = ["resolve-ranked-shaped-type-result-dims", OutlineRegions()]
    open_dims = {} if rows is None else {0: 0}
    found = compute_by_kernels(build, [x, weights], _LAYER, outline, _LEFT, open_dims)
    for actual, expected in zip(found, [last, np.concatenate([first, last], -2)], strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


def test_results_that_begin_as_one_tensor():
    random = np.random.default_rng(0)
    x, y = (random.standard_normal((3, 8)).astype(np.float32) for _ in range(2))

    def build(x: ir.Value, y: ir.Value, _layer: ir.Value) -> list[ir.Value]:
        return [reduce("hd->h", lambda e, sum_: arith.addf(sum_, e), 0.0, each) for each in (x, y)]

    found = compute_by_kernels(build, [x, y], _LAYER, ["cse", OutlineRegions()], _LEFT)
    for actual, each in zip(found, [x, y], strict=True):
        np.testing.assert_allclose(actual, each.astype(np.float64).sum(-1), rtol=1e-5)
