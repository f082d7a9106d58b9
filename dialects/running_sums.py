"""Sums of numbers one after the other, and how far to go to have more than some of it."""

from collections.abc import Callable

from torch_mlir import ir
from torch_mlir.dialects import arith, scf

from llmc.dialects.index_notation import constant, index

_Float = arith.CmpFPredicate

Numbers = Callable[[ir.Value], ir.Value]
"""The number at an index."""


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
