"""`llmc.top_k`: the largest numbers of each row."""

from math import inf
from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, ext
from torch_mlir.extras import types as T

from llmc.dialects.argmax import equal, rows_of_floats
from llmc.dialects.checks import element_is, require, same, same_element, tensor_of, verified
from llmc.dialects.group_rows import add_if
from llmc.dialects.index_notation import Size, loop_index, reduce
from llmc.dialects.llmc import Operation


class TopKOp(Operation, name="top_k", traits=[ext.Pure]):
    """The `count` largest numbers of each row of `x [R, N]`, and where they stand.

    They come in descending order, equal ones in that of their places. `count` is at most N. What
    is found in a row that holds NaN is undefined.

        %values, %places = "llmc.top_k"(%x, %count)
                         : (tensor<?x49152xf32>, index) -> (tensor<?x?xf32>, tensor<?x?xi64>)
    """

    x: ext.Operand[Any]
    count: ext.Operand[ir.IndexType]
    values: ext.Result[Any]
    places: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks extents, those of `count` being dynamic, and element types."""
        rows = rows_of_floats("x", self.x)
        for name, value in (("values", self.values), ("places", self.places)):
            found, count = tensor_of(value, name, 2)
            same(name, "dimension 0", found, rows)
            require(count is None, f"must be dynamic in dimension 1, but is {value.type}", name)
        same_element("values", self.values, self.x)
        element_is("places", self.places, "i64")

    @staticmethod
    def reference(x: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """`x [R, N]` -> as x and int64 `[R, count]`."""
        places = np.argsort(-x, axis=1, kind="stable")[:, :count]
        return np.take_along_axis(x, places, axis=1), places

    def lower(self) -> list[ir.Value]:
        """Every number's rank, which is how many go before it; then, of each rank, the number.

        Every number is compared with every other: the kernel selects instead.
        """
        return select_largest(self.x, self.count)


def select_largest(x: ir.Value, count: Size) -> list[ir.Value]:
    """The `count` largest of each row of `x [R, N]`, and their places, i64: both `[R, count]`."""

    def value_of_rank(value: ir.Value, rank: ir.Value, found: ir.Value) -> ir.Value:
        return arith.select(_is_here(rank), value, found)

    def place_of_rank(rank: ir.Value, found: ir.Value) -> ir.Value:
        return arith.select(_is_here(rank), arith.index_cast(rank.type, loop_index(2)), found)

    ranks = ranks_of(x)
    values = reduce("rn,rn->rc", value_of_rank, -inf, x, ranks, c=count)
    return [values, reduce("rn->rc", place_of_rank, 0, ranks, c=count)]


def ranks_of(x: ir.Value) -> ir.Value:
    """How many of a row of `x [R, N]` go before each of it, i64: larger ones and earlier equals."""

    def count_before(other: ir.Value, value: ir.Value, rank: ir.Value) -> ir.Value:
        return add_if(goes_before(other, loop_index(2), value, loop_index(1)), rank)

    return reduce("rm,rn->rn", count_before, 0, x, x, element=T.i64())


def goes_before(other: ir.Value, place: ir.Value, value: ir.Value, own: ir.Value) -> ir.Value:
    """Whether `other` at `place` is larger than `value` at `own`, or as large and before it."""
    larger = arith.cmpf(arith.CmpFPredicate.OGT, other, value)
    earlier = arith.cmpi(arith.CmpIPredicate.ult, place, own)
    return arith.ori(larger, arith.andi(earlier, equal(other, value)))


def _is_here(rank: ir.Value) -> ir.Value:
    """Whether a number goes where the result's second loop stands."""
    place = arith.index_cast(rank.type, loop_index(1))
    return arith.cmpi(arith.CmpIPredicate.eq, rank, place)
