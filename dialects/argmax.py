"""`llmc.argmax`: the first of the largest numbers of each row."""

from math import inf
from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, ext, math
from torch_mlir.extras import types as T

from llmc.dialects.checks import element_is, filled, floats, same, static, tensor_of, verified
from llmc.dialects.index_notation import constant, loop_index, reduce
from llmc.dialects.llmc import Operation


class ArgmaxOp(Operation, name="argmax", traits=[ext.Pure]):
    """Where each row of `x [R, N]` is largest; the first such place, as numpy has it.

    It is -1 where the largest is NaN or infinite; NaN counts as larger than any number.

        %best = "llmc.argmax"(%x) : (tensor<?x49152xf32>) -> tensor<?xi64>
    """

    x: ext.Operand[Any]
    out: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks extents and element types."""
        rows = rows_of_floats("x", self.x)
        same("out", "dimension 0", tensor_of(self.out, "out", 1)[0], rows)
        element_is("out", self.out, "i64")

    @staticmethod
    def reference(x: np.ndarray) -> np.ndarray:
        """`x [R, N]` -> int64 `[R]`."""
        best = x.argmax(axis=1)
        largest = np.take_along_axis(x, best[:, None], axis=1)[:, 0]
        return np.where(np.isfinite(largest), best, -1)

    def lower(self) -> ir.Value:
        """The largest of each row, then the least index at which it stands."""
        return find_best(self.x)


def find_best(x: ir.Value) -> ir.Value:
    """The first places i64 `[R]` where rows of `x [R, N]` are largest, as `llmc.argmax` has it."""
    columns, i64 = x.type.shape[1], T.i64()
    largest = reduce("rn->r", arith.maximumf, -inf, x)

    def first(value: ir.Value, largest: ir.Value, best: ir.Value) -> ir.Value:
        place = arith.index_cast(i64, loop_index(1))
        place = arith.select(equal(value, largest), place, constant(columns, i64))
        return arith.select(is_finite(largest), arith.minsi(best, place), constant(-1, i64))

    return reduce("rn,r->r", first, columns, x, largest, element=i64)


def rows_of_floats(name: str, value: ir.Value) -> int | None:
    """Checks that `value` is `[R, N]` of floats, N being known and not 0; R, None where dynamic."""
    rows = tensor_of(value, name, 2)[0]
    floats(name, value)
    static(name, value, 1)
    filled(name, value, 1)
    return rows


def equal(a: ir.Value, b: ir.Value) -> ir.Value:
    """Whether two floats are equal, which NaN is to nothing."""
    return arith.cmpf(arith.CmpFPredicate.OEQ, a, b)


def is_finite(value: ir.Value) -> ir.Value:
    """Whether a float is neither NaN nor infinite."""
    return arith.cmpf(arith.CmpFPredicate.OLT, math.absf(value), constant(inf, value.type))
