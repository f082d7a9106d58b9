"""What kernels of layers over experts share: a loop of which each round computes some rows."""

from collections.abc import Callable
from typing import TypeAlias, TypeVar

from torch_mlir import ir
from torch_mlir.dialects import arith, scf, tensor
from torch_mlir.extras import types as T

from llmc.dialects.index_notation import Size, collapse, index, slice_of, slice_of_rows

_T = TypeVar("_T")

_Rows: TypeAlias = tuple[ir.Value, Size, Size]
"""Rows of a kernel's result, the first one's number, and how many they are."""


def for_each_row(
    expert: ir.Value,
    count: int,
    top_k: int,
    row: ir.RankedTensorType,
    rows_of: Callable[[ir.Value], _T],
    multiply: Callable[[_T, ir.Value], ir.Value],
) -> list[ir.Value]:
    """`count` rows like `row`, of which every token has `top_k`.

    `multiply(rows_of(token), number)` is one, the number being what `expert` has for it.
    """

    def compute(number: ir.Value) -> _Rows:
        rows = rows_of(arith.divui(number, index(top_k)))
        return multiply(rows, _number_at(expert, number)), number, 1

    return _for_each(count, _rows(count, row), compute)


def for_each_group(
    first: ir.Value,
    experts: int,
    count: Size,
    row: ir.RankedTensorType,
    rows_of: Callable[[ir.Value, ir.Value], _T],
    multiply: Callable[[_T, ir.Value], ir.Value],
) -> list[ir.Value]:
    """`count` rows like `row`, of which those of each of the `experts` lie together.

    `multiply(rows_of(start, count), number)` are those of one, which `first` says where they begin.
    """

    def compute(expert: ir.Value) -> _Rows:
        start = _number_at(first, expert)
        own = arith.subi(_number_at(first, arith.addi(expert, index(1))), start)
        return multiply(rows_of(start, own), expert), start, own

    return _for_each(experts, _rows(count, row), compute)


def element(value: ir.Value, number: ir.Value) -> ir.Value:
    """`value [E, ...]` at `number`."""
    _, *rest = value.type.shape
    return slice_of(value, [number, *[0] * len(rest)], [1, *rest], rest)


def without_padding(y: ir.Value, type_: ir.RankedTensorType) -> ir.Value:
    """`y [R, P, J]` as `[R, N]`, of this type: the last panel may be padded."""
    y = collapse(y, [1, 2])
    if y.type.shape[1] != type_.shape[1]:
        y = slice_of_rows(y, 0, type_.shape[1])
    return y if y.type == type_ else tensor.cast(type_, y)


def _rows(count: Size, row: ir.RankedTensorType) -> ir.Value:
    """Room for as many rows like `row`."""
    return tensor.empty([count, *row.shape], row.element_type)


def _for_each(count: int, room: ir.Value, compute: Callable[[ir.Value], _Rows]) -> list[ir.Value]:
    """Rows, as many as there is `room` for, that `compute` gives for each number below `count`."""
    loop = scf.ForallOp([0], [count], [1], [room])
    with ir.InsertionPoint(loop.body):
        value, first, number = compute(loop.induction_variables[0])
        end = loop.terminator()
    with ir.InsertionPoint(end.block):
        _insert(value, loop.inner_iter_args[0], first, number)
    return list(loop.results)


def _insert(value: ir.Value, into: ir.Value, first: Size, count: Size) -> None:
    """Makes `value` the rows of `into` from number `first` on, at the end of a loop."""
    _, *rest = into.type.shape
    dynamic = ir.ShapedType.get_dynamic_size()
    offsets, extents = [dynamic, *[0] * len(rest)], [dynamic, *rest]
    counts = [] if isinstance(count, int) else [count]
    if isinstance(count, int):
        extents[0] = count
    ones = [1] * len(extents)
    tensor.parallel_insert_slice(value, into, [first], counts, [], offsets, extents, ones)


def _number_at(values: ir.Value, place: ir.Value) -> ir.Value:
    """An integer of `values [R]`, as an index."""
    return arith.index_cast(T.index(), tensor.extract(values, [place]))
