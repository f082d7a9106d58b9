"""`llmc.nucleus`: the largest numbers of each row that have a share of it."""

from math import inf
from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, ext

from llmc.dialects.argmax import rows_of_floats
from llmc.dialects.checks import element_is, like, shaped, verified
from llmc.dialects.index_notation import constant, pointwise, reduce
from llmc.dialects.llmc import Operation

_Float = arith.CmpFPredicate


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
        """What goes before each number, and those before which there is less than the share.

        Every number is compared with every other: the kernel searches the least that is kept.
        """
        totals = reduce("rn->r", arith.addf, 0.0, self.x)
        borders = pointwise("r,1->r", lambda total, of, _: border(total, of), totals, self.share)

        def add_larger(other: ir.Value, value: ir.Value, sum_: ir.Value) -> ir.Value:
            is_larger = arith.cmpf(_Float.OGT, other, value)
            return arith.addf(sum_, arith.select(is_larger, other, constant(0.0, value.type)))

        def keep(value: ir.Value, before: ir.Value, border: ir.Value, _: ir.Value) -> ir.Value:
            is_kept = arith.cmpf(_Float.OLT, before, border)
            return arith.select(is_kept, value, constant(0.0, value.type))

        before = reduce("rm,rn->rn", add_larger, 0.0, self.x, self.x)
        return pointwise("rn,rn,r->rn", keep, self.x, before, borders)


def border(total: ir.Value, share: ir.Value) -> ir.Value:
    """What the numbers that are kept sum to at least; infinite with a share of 1."""
    is_part = arith.cmpf(_Float.OLT, share, constant(1.0, share.type))
    return arith.select(is_part, arith.mulf(share, total), constant(inf, total.type))
