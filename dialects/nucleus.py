"""`llmc.nucleus`: the largest numbers of each row that have a share of it."""

from math import inf
from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, ext, scf

from llmc.dialects.argmax import rows_of_floats
from llmc.dialects.checks import element_is, like, shaped, verified
from llmc.dialects.index_notation import (
    constant,
    filled,
    index,
    loop_index,
    pointwise,
    reduce,
    size,
)
from llmc.dialects.llmc import Operation
from llmc.dialects.row_parts import in_parts, sum_of

_DIGIT = 4
"""How many bits of a number a round finds."""


class NucleusOp(Operation, name="nucleus", traits=[ext.Pure]):
    """Of each row of `x [R, N]` the largest numbers, the fewest that have `share [1]` of its sum.

    The others are 0 in the result. What equals the least of those is kept, too, and with a share of
    1 everything. Numbers are 0 or more, the share is above 0.

        %kept = "llmc.nucleus"(%x, %share)
              : (tensor<?x49152xf32>, tensor<1xf32>) -> tensor<?x49152xf32>
    """

    x: ext.Operand[Any]
    share: ext.Operand[Any]
    out: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks extents and element types."""
        rows_of_floats("x", self.x)
        shaped("share", self.share, [1])
        for name in ("x", "share"):
            element_is(name, getattr(self, name), "f32")
        like("out", self.out, "x", self.x)

    @staticmethod
    def reference(x: np.ndarray, share: np.ndarray) -> np.ndarray:
        """`x [R, N]`, `share [1]` -> as x."""
        falling = -np.sort(-x, axis=1)
        before = np.cumsum(falling, axis=1) - falling
        border = share * x.sum(axis=1, keepdims=True) if share < 1 else np.inf
        least = np.where(before < border, falling, np.inf).min(axis=1, keepdims=True)
        return np.where(x >= least, x, np.zeros_like(x))

    def lower(self) -> ir.Value:
        """The largest number above which a row still has its share, from its first bits on.

        Of floats that are not negative, the larger has the larger bits.
        """
        parts = in_parts(self.x)
        border = pointwise("r,1->r", _border, sum_of(parts), self.share)
        bound = _search(parts, border)

        def keep(value: ir.Value, bound: ir.Value, _: ir.Value) -> ir.Value:
            return _if_above(bound, value)

        return pointwise("rn,r->rn", keep, self.x, bound)


def _border(total: ir.Value, share: ir.Value, _: ir.Value) -> ir.Value:
    """What the numbers sum to that are kept, at least; infinite where all are."""
    is_part = arith.cmpf(arith.CmpFPredicate.OLT, share, constant(1.0, share.type))
    return arith.select(is_part, arith.mulf(share, total), constant(inf, total.type))


def _search(parts: ir.Value, border: ir.Value) -> ir.Value:
    """The bits `[R]` of the largest number above which `border [R]` is reached; 0 if none is."""
    i32 = ir.IntegerType.get_signless(32)
    loop = scf.ForOp(index(0), index(32), index(_DIGIT), [filled([size(parts, 0)], 0, i32)])
    with ir.InsertionPoint(loop.body):
        (bound,) = loop.inner_iter_args
        shift = arith.subi(index(32 - _DIGIT), loop.induction_variable)
        shift = arith.index_cast(i32, shift)
        scf.yield_([_next_digit(parts, border, bound, shift)])
    return loop.results[0]


def _next_digit(parts: ir.Value, border: ir.Value, bound: ir.Value, shift: ir.Value) -> ir.Value:
    """`bound [R]` with the digit at `shift` that it has, where so far it has 0.

    That is how many of the digits from 1 on leave numbers above them which reach the border.
    """
    i32 = bound.type.element_type

    def raised(bound: ir.Value, digit: ir.Value) -> ir.Value:
        return arith.ori(bound, arith.shli(digit, shift))

    def add(value: ir.Value, bound: ir.Value, sum_: ir.Value) -> ir.Value:
        digit = arith.addi(arith.index_cast(i32, loop_index(2)), constant(1, i32))
        return arith.addf(sum_, _if_above(raised(bound, digit), value))

    def count(sum_: ir.Value, border: ir.Value, digits: ir.Value) -> ir.Value:
        reaches = arith.cmpf(arith.CmpFPredicate.OGE, sum_, border)
        return arith.addi(digits, arith.extui(i32, reaches))

    above = reduce("rpn,r->rpd", add, 0.0, parts, bound, d=2**_DIGIT - 1)
    sums = reduce("rpd->rd", arith.addf, 0.0, above)
    digit = reduce("rd,r->r", count, 0, sums, border, element=i32)
    return pointwise("r,r->r", lambda bound, digit, _: raised(bound, digit), bound, digit)


def _if_above(bound: ir.Value, value: ir.Value) -> ir.Value:
    """`value` if its bits, as a number, are above `bound`, else 0."""
    bits = arith.bitcast(bound.type, value)
    is_above = arith.cmpi(arith.CmpIPredicate.ugt, bits, bound)
    return arith.select(is_above, value, constant(0.0, value.type))
