"""linalg: generics, a reduction step at a time for all parallel loops at once, and the rest."""

import itertools
from collections.abc import Iterator

import numpy as np
from torch_mlir import ir

from tests.interpreter.machine import Frame, Values, evaluates
from tests.interpreter.tensors import mixed


@evaluates("linalg.generic")
def _generic(frame: Frame, op: ir.Operation) -> Values:
    arrays = [np.asarray(array) for array in frame.operands(op)]
    maps = [ir.AffineMapAttr(map_).value for map_ in op.attributes["indexing_maps"]]
    outs = [array.copy() for array in arrays[-len(op.results) :]]
    ins = arrays[: -len(outs)]
    reductions = ["reduction" in str(kind) for kind in op.attributes["iterator_types"]]
    before = frame.indices
    for loops in _steps(_extents(maps, arrays), reductions):
        frame.indices = loops
        read = [_at(array, map_, loops) for array, map_ in zip(ins, maps, strict=False)]
        held = [_at(a, m, loops) for a, m in zip(outs, maps[len(ins) :], strict=True)]
        new = frame.run(op.regions[0].blocks[0], [*read, *held])
        for out, map_, value in zip(outs, maps[len(ins) :], new, strict=True):
            out[_place(map_, loops)] = value
    frame.indices = before
    return outs


def _extents(maps: list[ir.AffineMap], arrays: list[np.ndarray]) -> list[int]:
    """How far each loop runs, by the operands that it walks along."""
    extents: dict[int, int] = {}
    for map_, array in zip(maps, arrays, strict=True):
        for expr, extent in zip(map_.results, array.shape, strict=True):
            if not isinstance(expr, ir.AffineDimExpr):
                continue
            if extents.setdefault(expr.position, extent) != extent:
                raise ValueError(f"loop {expr.position} is {extents[expr.position]}, {extent}")
    return [extents[loop] for loop in range(maps[0].n_dims)]


def _steps(extents: list[int], reductions: list[bool]) -> Iterator[tuple[np.ndarray, ...]]:
    """The values of the loops: all of a parallel one, on an axis of its own; one of the others."""
    parallel = [loop for loop, reduces in enumerate(reductions) if not reduces]
    along = {
        loop: np.arange(extents[loop]).reshape([-1 if a == loop else 1 for a in parallel])
        for loop in parallel
    }
    reduced = [loop for loop, reduces in enumerate(reductions) if reduces]
    for step in itertools.product(*(range(extents[loop]) for loop in reduced)):
        fixed = dict(zip(reduced, map(np.int64, step), strict=True))
        yield tuple(along.get(loop, fixed.get(loop)) for loop in range(len(extents)))


def _place(map_: ir.AffineMap, loops: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    return tuple(_evaluate(expr, loops) for expr in map_.results)


def _at(array: np.ndarray, map_: ir.AffineMap, loops: tuple[np.ndarray, ...]) -> np.ndarray:
    return array[_place(map_, loops)]


@evaluates("linalg.index")
def _index(frame: Frame, op: ir.Operation) -> Values:
    return [frame.indices[ir.IntegerAttr(op.attributes["dim"]).value]]


@evaluates("linalg.softmax")
def _softmax(frame: Frame, op: ir.Operation) -> Values:
    x, axis = frame.values[op.operands[0]], ir.IntegerAttr(op.attributes["dimension"]).value
    weights = np.exp(x - x.max(axis, keepdims=True))
    return [weights / weights.sum(axis, keepdims=True)]


@evaluates("linalg.pack")
def _pack(frame: Frame, op: ir.Operation) -> Values:
    view = op.opview
    x, dims, tiles = frame.values[view.source], list(view.inner_dims_pos), _tiles(frame, view)
    out = frame.values[view.dest]
    missing = [0] * x.ndim
    for dim, tile in zip(dims, tiles, strict=True):
        missing[dim] = -x.shape[dim] % tile
    if any(missing):
        filling = frame.values[view.padding_value]
        x = np.pad(x, [(0, count) for count in missing], constant_values=filling)
    split, outer, inner = _split(x.shape, dims, tiles, _outer(view, x.ndim))
    packed = x.reshape(split).transpose([*outer, *inner])
    if packed.shape != out.shape:
        raise ValueError(f"{packed.shape} does not fit {out.shape} in {op}")
    return [packed]


@evaluates("linalg.unpack")
def _unpack(frame: Frame, op: ir.Operation) -> Values:
    view = op.opview
    packed, dims, tiles = frame.values[view.source], list(view.inner_dims_pos), _tiles(frame, view)
    out = frame.values[view.dest]
    order = _outer(view, out.ndim)
    shape = [packed.shape[order.index(dim)] for dim in range(out.ndim)]
    for dim, tile in zip(dims, tiles, strict=True):
        shape[dim] *= tile
    split, outer, inner = _split(tuple(shape), dims, tiles, order)
    whole = packed.transpose(np.argsort([*outer, *inner])).reshape(shape)
    if len(split) != packed.ndim or any(a < b for a, b in zip(shape, out.shape, strict=True)):
        raise ValueError(f"{packed.shape} does not give {out.shape} in {op}")
    return [whole[tuple(slice(extent) for extent in out.shape)]]


def _tiles(frame: Frame, view: ir.OpView) -> list[int]:
    return mixed(frame, view.static_inner_tiles, list(view.inner_tiles))


def _outer(view: ir.OpView, rank: int) -> list[int]:
    return list(view.outer_dims_perm or range(rank))


def _split(
    shape: tuple[int, ...], dims: list[int], tiles: list[int], order: list[int]
) -> tuple[list[int], list[int], list[int]]:
    """`shape` with each tiled dimension as two, and which of these are outer, and inner."""
    split: list[int] = []
    outer_at, inner_at = {}, {}
    for dim, extent in enumerate(shape):
        outer_at[dim] = len(split)
        if dim in dims:
            tile = tiles[dims.index(dim)]
            inner_at[dim] = len(split) + 1
            split += [extent // tile, tile]
        else:
            split.append(extent)
    return split, [outer_at[dim] for dim in order], [inner_at[dim] for dim in dims]


@evaluates("affine.apply")
def _apply(frame: Frame, op: ir.Operation) -> Values:
    (value,) = _results(frame, op)
    return [value]


@evaluates("affine.min")
def _min(frame: Frame, op: ir.Operation) -> Values:
    return [np.min(_results(frame, op), axis=0)]


@evaluates("affine.max")
def _max(frame: Frame, op: ir.Operation) -> Values:
    return [np.max(_results(frame, op), axis=0)]


def _results(frame: Frame, op: ir.Operation) -> Values:
    map_ = ir.AffineMapAttr(op.attributes["map"]).value
    values = frame.operands(op)
    dims, symbols = values[: map_.n_dims], values[map_.n_dims :]
    return [_evaluate(expr, dims, symbols) for expr in map_.results]


def _evaluate(expr: ir.AffineExpr, dims: Values, symbols: Values = ()) -> np.ndarray:
    if isinstance(expr, ir.AffineDimExpr):
        return dims[expr.position]
    if isinstance(expr, ir.AffineSymbolExpr):
        return symbols[expr.position]
    if isinstance(expr, ir.AffineConstantExpr):
        return np.int64(expr.value)
    left, right = (_evaluate(side, dims, symbols) for side in (expr.lhs, expr.rhs))
    if isinstance(expr, ir.AffineAddExpr):
        return left + right
    if isinstance(expr, ir.AffineMulExpr):
        return left * right
    if isinstance(expr, ir.AffineModExpr):
        return left % right
    return left // right if isinstance(expr, ir.AffineFloorDivExpr) else -(-left // right)
