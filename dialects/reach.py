"""`llmc.reach`: how far to go in each row to have more than a share of it."""

from collections.abc import Callable
from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, ext, scf, tensor

from llmc.dialects.argmax import rows_of_floats
from llmc.dialects.checks import element_is, same, tensor_of, verified
from llmc.dialects.index_notation import constant, index, loop_index, pointwise, reduce
from llmc.dialects.llmc import Operation
from llmc.dialects.row_parts import in_parts

_Float = arith.CmpFPredicate

Numbers = Callable[[ir.Value], ir.Value]
"""The number at an index."""


class ReachOp(Operation, name="reach", traits=[ext.Pure]):
    """The first place up to which each row of `x [R, N]` has more than `share [R]` of its sum.

    Shares are from 0 to 1, numbers 0 or more. Where rounding leaves no such place, it is that of
    the last number above 0; where there is none, 0.

        %places = "llmc.reach"(%x, %share) : (tensor<?x49152xf32>, tensor<?xf32>) -> tensor<?xi64>
    """

    x: ext.Operand[Any]
    share: ext.Operand[Any]
    out: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks extents and element types."""
        rows = rows_of_floats("x", self.x)
        for name in ("share", "out"):
            same(name, "its length", tensor_of(getattr(self, name), name, 1)[0], rows)
        for name in ("x", "share"):
            element_is(name, getattr(self, name), "f32")
        element_is("out", self.out, "i64")

    @staticmethod
    def reference(x: np.ndarray, share: np.ndarray) -> np.ndarray:
        """`x [R, N]`, `share [R]` -> int64 `[R]`."""
        sums = np.cumsum(x, axis=1)
        total = sums[:, -1:]
        return ((sums <= share[:, None] * total) & (sums < total)).sum(axis=1)

    def lower(self) -> ir.Value:
        """Passes over parts of a row, and then over numbers of the part that is left."""
        parts = in_parts(self.x)
        sums = reduce("rpn->rp", arith.addf, 0.0, parts)
        _, count, width = parts.type.shape

        def find(share: ir.Value, _: ir.Value) -> ir.Value:
            row = loop_index(0)
            of_row = _numbers(sums, row)
            total = add_up(of_row, index(count), share.type)
            wanted = arith.mulf(share, total)
            part, before = reach(of_row, index(count), wanted, total)
            of_part = _numbers(parts, row, part)
            wanted = arith.subf(wanted, before)
            total = add_up(of_part, index(width), share.type)
            place, _ = reach(of_part, index(width), wanted, total)
            place = arith.addi(arith.muli(part, index(width)), place)
            return arith.index_cast(self.out.type.element_type, place)

        return pointwise("r->r", find, self.share, element=self.out.type.element_type)


def _numbers(x: ir.Value, *place: ir.Value) -> Numbers:
    return lambda last: tensor.extract(x, [*place, last])


def add_up(numbers: Numbers, count: ir.Value, element: ir.Type) -> ir.Value:
    """The sum of `count` numbers of type `element`, one after the other."""
    zero = constant(0.0, element)
    return fold(numbers, count, [zero], lambda number, sum_: [arith.addf(sum_, number)])[0]


def reach(
    numbers: Numbers, count: ir.Value, wanted: ir.Value, total: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """How many of `count` numbers are passed until there is more than `wanted`, and their sum.

    The one with which there is the `total` is not passed. No number is below 0.
    """

    def pass_over(
        number: ir.Value, before: ir.Value, place: ir.Value, passed: ir.Value
    ) -> list[ir.Value]:
        sum_ = arith.addf(before, number)
        is_passed = arith.andi(
            arith.cmpf(_Float.OLE, sum_, wanted), arith.cmpf(_Float.OLT, sum_, total)
        )
        step = arith.select(is_passed, index(1), index(0))
        return [sum_, arith.addi(place, step), arith.select(is_passed, sum_, passed)]

    zero = constant(0.0, wanted.type)
    _, place, passed = fold(numbers, count, [zero, index(0), zero], pass_over)
    return place, passed


def fold(
    numbers: Numbers, count: ir.Value, start: list[ir.Value], body: Callable[..., list[ir.Value]]
) -> list[ir.Value]:
    """What `body(number, *results)` makes of one number after the other."""
    loop = scf.ForOp(index(0), count, index(1), start)
    with ir.InsertionPoint(loop.body):
        scf.yield_(body(numbers(loop.induction_variable), *loop.inner_iter_args))
    return list(loop.results)
