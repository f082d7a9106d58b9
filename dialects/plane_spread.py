"""`llmc.plane_metric`, `llmc.plane_spread`: how far rough products may be from whole ones."""

from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, ext, math

from llmc.dialects.bit_planes import LEAST, LOW, MIDDLE, SLACK, metric, rounding, spread
from llmc.dialects.block_layout import unpack
from llmc.dialects.blocks import Q8_0
from llmc.dialects.checks import element_is, shaped, static, tensor_of, verified
from llmc.dialects.index_notation import byte, collapse, constant, expand, pointwise, reduce
from llmc.dialects.llmc import Operation
from llmc.dialects.plane_checks import q8_0
from llmc.dialects.plane_layout import stored


class PlaneMetricOp(Operation, name="plane_metric", traits=[ext.Pure]):
    """A factor `[K]` for each column of `x`, by which `llmc.plane_spread` measures lengths.

    Columns of large numbers count less: those that they are multiplied by are often large, too.

        %m = "llmc.plane_metric"(%w) : (tensor<49152x18x!llmc.q8_0>) -> tensor<576xf32>
    """

    x: ext.Operand[Any]
    out: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks that x is a static matrix of q8_0 blocks, and the result's length."""
        _, count = tensor_of(self.x, "x", 2)
        static("x", self.x)
        q8_0("x", self.x)
        shaped("out", self.out, [count * Q8_0.values])
        static("out", self.out)
        element_is("out", self.out, "f32")

    @staticmethod
    def reference(x: np.ndarray) -> np.ndarray:
        """Blocks `[N, K/32]` -> float32 `[K]`."""
        return metric(x)

    def lower(self) -> ir.Value:
        """The mean square of each column, the least that counts, and 1 over the fourth root."""
        parts, (rows, count) = unpack(self.x), self.x.type.shape
        f32 = parts.scale.type.element_type
        columns = count * Q8_0.values

        def add_square(integer: ir.Value, scale: ir.Value, sum_: ir.Value) -> ir.Value:
            number = arith.mulf(arith.sitofp(f32, integer), scale)
            return arith.addf(sum_, arith.mulf(number, number))

        def mean_of(sum_: ir.Value) -> ir.Value:
            return math.sqrt(arith.divf(sum_, constant(float(rows), f32)))

        def add_mean(sum_: ir.Value, total: ir.Value) -> ir.Value:
            return arith.addf(total, mean_of(sum_))

        def factor(sum_: ir.Value, total: ir.Value, _: ir.Value) -> ir.Value:
            least = arith.mulf(total, constant(LEAST / columns, f32))
            is_zero = arith.cmpf(arith.CmpFPredicate.OEQ, total, constant(0.0, f32))
            least = arith.select(is_zero, constant(1.0, f32), least)
            return math.rsqrt(arith.maximumf(mean_of(sum_), least))

        sums = reduce("nbv,nb->bv", add_square, 0.0, parts.integers, parts.scale, element=f32)
        total = reduce("bv->", add_mean, 0.0, sums)
        return collapse(pointwise("bv,->bv", factor, sums, total), [2])


class PlaneSpreadOp(Operation, name="plane_spread", traits=[ext.Pure]):
    """How far `llmc.plane_linear` without `low` may be from the whole product: for each row of `x`.

    It is less than the result, `[N]`, times the length of what multiplies the rows, when that is
    rounded to integers and each of them is multiplied by its factor in `metric [K]`. For what the
    low bits add is a product, too, which is no larger than the product of both lengths (Cauchy and
    Schwarz). What rounding to f32 adds is counted in.

        %s = "llmc.plane_spread"(%w, %m)
           : (tensor<49152x18x!llmc.q8_0>, tensor<576xf32>) -> tensor<49152xf32>
    """

    x: ext.Operand[Any]
    metric: ext.Operand[Any]
    out: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks that x is a static matrix of q8_0 blocks, and the lengths of the others."""
        rows, count = tensor_of(self.x, "x", 2)
        static("x", self.x)
        q8_0("x", self.x)
        shaped("metric", self.metric, [count * Q8_0.values])
        static("metric", self.metric)
        element_is("metric", self.metric, "f32")
        shaped("out", self.out, [rows])
        static("out", self.out)
        element_is("out", self.out, "f32")

    @staticmethod
    def reference(x: np.ndarray, metric: np.ndarray) -> np.ndarray:
        """Blocks `[N, K/32]`, `[K]` -> float32 `[N]`."""
        return spread(x, metric)

    def lower(self) -> ir.Value:
        """The lengths of the rows and of what is left out of them."""
        parts, blocks = unpack(self.x), self.x.type.shape[1]
        f32 = parts.scale.type.element_type

        def left_out(integer: ir.Value) -> ir.Value:
            return arith.subi(arith.andi(stored(integer), byte(LOW.mask)), byte(MIDDLE))

        def add_square(*operands: ir.Value) -> ir.Value:
            integer, scale, over, sum_ = operands
            number = arith.divf(arith.mulf(arith.sitofp(f32, integer), scale), over)
            return arith.addf(sum_, arith.mulf(number, number))

        def add_left_out(integer: ir.Value, *others: ir.Value) -> ir.Value:
            return add_square(left_out(integer), *others)

        def combine(whole: ir.Value, part: ir.Value, _: ir.Value) -> ir.Value:
            whole, part = math.sqrt(whole), math.sqrt(part)
            rounded = arith.mulf(arith.addf(whole, part), constant(rounding(blocks), f32))
            return arith.mulf(arith.addf(part, rounded), constant(SLACK, f32))

        over = expand(self.metric, [[blocks, Q8_0.values]])
        sums = [
            reduce("nbv,nb,bv->n", add, 0.0, parts.integers, parts.scale, over, element=f32)
            for add in (add_square, add_left_out)
        ]
        return pointwise("n,n->n", combine, *sums)
