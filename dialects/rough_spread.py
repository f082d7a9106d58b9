"""`llmc.rough_metric`, `llmc.rough_spread`: how far rough products may be from whole ones."""

from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, ext, math
from torch_mlir.extras import types as T

from llmc.dialects import float_bits, plane_layout
from llmc.dialects.block_layout import dequantize
from llmc.dialects.block_types import block_format
from llmc.dialects.blocks import Q8_0
from llmc.dialects.checks import element_is, filled, shaped, static, tensor_of, verified
from llmc.dialects.index_notation import constant, pointwise, reduce
from llmc.dialects.llmc import Operation
from llmc.dialects.plane_checks import q8_0
from llmc.dialects.rough_products import LEAST, SLACK, metric, rounding, spread


class RoughMetricOp(Operation, name="rough_metric", traits=[ext.Pure]):
    """A factor `[K]` for each column of `x`, by which `llmc.rough_spread` measures lengths.

    Columns of large numbers count less: those that they are multiplied by are often large, too.
    The matrix is one of q8_0 blocks `[N, K/32]`, or of f16 or f32 `[N, K]`.

        %m = "llmc.rough_metric"(%w) : (tensor<49152x576xf16>) -> tensor<576xf32>
    """

    x: ext.Operand[Any]
    out: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks that x is a static matrix with high bits, and the result's length."""
        _, columns = _matrix(self.x)
        _vector("out", self.out, columns)

    @staticmethod
    def reference(x: np.ndarray) -> np.ndarray:
        """Blocks `[N, K/32]` or floats `[N, K]` -> float32 `[K]`."""
        return metric(x)

    def lower(self) -> ir.Value:
        """The mean square of each column, the least that counts, and 1 over the fourth root."""
        numbers, f32 = _numbers(self.x), T.f32()
        rows, columns = numbers.type.shape

        def add_square(number: ir.Value, sum_: ir.Value) -> ir.Value:
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

        sums = reduce("nk->k", add_square, 0.0, numbers)
        total = reduce("k->", add_mean, 0.0, sums)
        return pointwise("k,->k", factor, sums, total)


class RoughSpreadOp(Operation, name="rough_spread", traits=[ext.Pure]):
    """How far products by the high bits of `x` may be from whole ones: for each row.

    The matrix is one of q8_0 blocks `[N, K/32]`, which `llmc.pack_planes` makes parts of, or of f16
    or f32 `[N, K]`, for `llmc.split_float`. A difference is less than the result, `[N]`, times the
    length of what multiplies the rows, each of its numbers times its factor in `metric [K]`. For
    what the low bits add is a product, too, which is no larger than the product of both lengths
    (Cauchy and Schwarz). What rounding to f32 adds is counted in.

        %s = "llmc.rough_spread"(%w, %m)
           : (tensor<49152x576xf16>, tensor<576xf32>) -> tensor<49152xf32>
    """

    x: ext.Operand[Any]
    metric: ext.Operand[Any]
    out: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks that x is a static matrix with high bits, and the lengths of the others."""
        rows, columns = _matrix(self.x)
        _vector("metric", self.metric, columns)
        _vector("out", self.out, rows)

    @staticmethod
    def reference(x: np.ndarray, metric: np.ndarray) -> np.ndarray:
        """Blocks `[N, K/32]` or floats `[N, K]`, `[K]` -> float32 `[N]`."""
        return spread(x, metric)

    def lower(self) -> ir.Value:
        """The lengths of the rows and of what is left out of them."""
        in_blocks, f32 = block_format(self.x.type), T.f32()
        terms = self.x.type.shape[1]

        def add_square(number: ir.Value, over: ir.Value, sum_: ir.Value) -> ir.Value:
            number = arith.divf(number, over)
            return arith.addf(sum_, arith.mulf(number, number))

        def combine(whole: ir.Value, part: ir.Value, _: ir.Value) -> ir.Value:
            whole, part = math.sqrt(whole), math.sqrt(part)
            rounded = arith.mulf(arith.addf(whole, part), constant(rounding(terms), f32))
            return arith.mulf(arith.addf(part, rounded), constant(SLACK, f32))

        left_out = (plane_layout if in_blocks else float_bits).left_out(self.x)
        sums = [
            reduce("nk,k->n", add_square, 0.0, numbers, self.metric)
            for numbers in (_numbers(self.x), left_out)
        ]
        return pointwise("n,n->n", combine, *sums)


def _matrix(x: ir.Value) -> list[int]:
    """Checks that `x` is a static matrix, not empty, that has high bits; returns N and K."""
    rows, columns = tensor_of(x, "x", 2)
    static("x", x)
    filled("x", x)
    if block_format(x.type):
        q8_0("x", x)
        return [rows, columns * Q8_0.values]
    float_bits.parts_of_floats("x", x)
    return [rows, columns]


def _vector(name: str, value: ir.Value, length: int) -> None:
    """Checks that tensor `name` is f32 of this length."""
    shaped(name, value, [length])
    static(name, value)
    element_is(name, value, "f32")


def _numbers(x: ir.Value) -> ir.Value:
    """What a matrix holds, f32 `[N, K]`."""
    if block_format(x.type):
        return dequantize(x)
    f32 = T.f32()
    return pointwise("nk->nk", lambda number, _: float_bits.as_f32(number), x, element=f32)
