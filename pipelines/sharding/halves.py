"""The halves of a prompt that ranks compute by turns, and the collectives on them."""

from torch_mlir import ir
from torch_mlir.dialects import arith

from llmc.dialects.attributes import i64
from llmc.dialects.index_notation import index
from llmc.pipelines.sharding.collectives import mark_started

_HALF = "llmc.half"
"""On a collective on half of the rows: 0 or 1, which half that is."""

_LEAST = 64
"""Rows of a prompt that is worth halving: for fewer, reading the weights takes all the time."""


def mark_half(op: ir.Operation, half: int) -> None:
    """Says that the collective `op` is on this half of the rows, and goes on meanwhile."""
    op.attributes[_HALF] = i64(half)
    mark_started(op)


def rows_of(op: ir.Operation | ir.OpView, rows: int) -> int:
    """How many rows the collective `op` is on, for a prompt of so many."""
    if _HALF not in op.attributes:
        return rows
    first = rows if rows < _LEAST else rows // 2
    return rows - first if ir.IntegerAttr(op.attributes[_HALF]).value else first


def first_half(rows: ir.Value) -> ir.Value:
    """How many rows the first half of `rows` has: all of them where they are few."""
    is_short = arith.cmpi(arith.CmpIPredicate.ult, rows, index(_LEAST))
    return arith.select(is_short, rows, arith.divui(rows, index(2)))
