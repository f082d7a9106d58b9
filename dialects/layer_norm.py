"""`llmc.layer_norm`: normalisation by mean and variance."""

from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, ext, math

from llmc.dialects.checks import (
    averaged,
    floats,
    like,
    not_negative,
    same,
    same_element,
    static,
    tensor_of,
    verified,
)
from llmc.dialects.index_notation import constant, letters, pointwise, reduce
from llmc.dialects.llmc import Operation
from llmc.dialects.sharding_rule import ShardingRule, by_letters


class LayerNormOp(Operation, name="layer_norm", traits=[ext.Pure]):
    """`(x - mean(x)) / sqrt(variance(x) + epsilon) * weight + bias` over the last dimension of x.

    The variance is the mean of `(x - mean(x))^2`. Without `weight` nothing is multiplied, without
    `bias` nothing is added. Ba et al., "Layer Normalization", 2016.

        %y = "llmc.layer_norm"(%x, %w, %b)
           {operandSegmentSizes = array<i32: 1, 1, 1>, epsilon = 1.0e-5 : f64}
           : (tensor<1x?x576xf32>, tensor<576xf32>, tensor<576xf32>) -> tensor<1x?x576xf32>
    """

    x: ext.Operand[Any]
    epsilon: ir.FloatAttr
    out: ext.Result[Any]
    weight: ext.Operand[Any] | None = None
    bias: ext.Operand[Any] | None = None

    @verified
    def verify_invariants(self) -> None:
        """Checks that weight and bias fit x's last dimension."""
        shape = tensor_of(self.x, "x", at_least=1)
        floats("x", self.x)
        static("x", self.x, len(shape) - 1)
        averaged("x", self.x)
        for name, vector in (("weight", self.weight), ("bias", self.bias)):
            if vector is not None:
                stored = tensor_of(vector, name, 1)
                same_element(name, vector, self.x)
                static(name, vector)
                same(name, "its length", stored[0], shape[-1])
        like("out", self.out, "x", self.x)
        not_negative("epsilon", self.epsilon, self.x)

    def sharding(self) -> ShardingRule:
        """By rows."""
        return by_letters(self, x="*.", out="*.")

    @staticmethod
    def reference(
        x: np.ndarray, weight: np.ndarray | None, bias: np.ndarray | None, epsilon: float
    ) -> np.ndarray:
        """`x [..., N]`, `weight` and `bias [N]` -> `[..., N]`."""
        centred = x - x.mean(axis=-1, keepdims=True)
        normed = centred / np.sqrt(np.mean(centred**2, axis=-1, keepdims=True) + epsilon)
        scaled = normed if weight is None else normed * weight
        return scaled if bias is None else scaled + bias

    def lower(self) -> ir.Value:
        """A reduction for the mean, one for the variance, then one elementwise operation."""
        element = self.x.type.element_type
        width = constant(float(self.x.type.shape[-1]), element)
        epsilon = constant(self.epsilon.value, element)
        rows = letters(self.x.type.rank - 1)

        def centred(x: ir.Value, total: ir.Value) -> ir.Value:
            return arith.subf(x, arith.divf(total, width))

        def add_square(x: ir.Value, total: ir.Value, sum_: ir.Value) -> ir.Value:
            x = centred(x, total)
            return arith.addf(sum_, arith.mulf(x, x))

        def normalise(x: ir.Value, total: ir.Value, square: ir.Value, *rest: ir.Value) -> ir.Value:
            scale = math.rsqrt(arith.addf(arith.divf(square, width), epsilon))
            normed = arith.mulf(centred(x, total), scale)
            *factors, _ = rest
            if self.weight is not None:
                normed = arith.mulf(normed, factors.pop(0))
            return normed if self.bias is None else arith.addf(normed, factors.pop(0))

        totals = reduce(f"{rows}n->{rows}", lambda x, sum_: arith.addf(sum_, x), 0.0, self.x)
        squares = reduce(f"{rows}n,{rows}->{rows}", add_square, 0.0, self.x, totals)
        vectors = [vector for vector in (self.weight, self.bias) if vector is not None]
        notation = ",".join([f"{rows}n", rows, rows, *["n"] * len(vectors)])
        return pointwise(f"{notation}->{rows}n", normalise, self.x, totals, squares, *vectors)
