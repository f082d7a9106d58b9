"""`llmc.rms_norm`: root mean square normalisation."""

from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, ext, math

from llmc.dialects.checks import (
    averaged,
    floats,
    like,
    not_negative,
    number,
    require,
    same,
    same_element,
    static,
    tensor_of,
    verified,
)
from llmc.dialects.index_notation import constant, letters, pointwise, reduce
from llmc.dialects.llmc import Operation
from llmc.dialects.sharding_rule import ShardingRule, by_letters


class RMSNormOp(Operation, name="rms_norm", traits=[ext.Pure]):
    """`x / sqrt(mean(x^2) + epsilon) * (offset + weight)` over the last dimension of x.

    Without `weight` nothing is multiplied, and `offset` is 0. Zhang and Sennrich, "Root Mean Square
    Layer Normalization", 2019. Gemma's offset is 1.

        %y = "llmc.rms_norm"(%x, %w)
           {operandSegmentSizes = array<i32: 1, 1>, epsilon = 1.0e-5 : f64, offset = 0.0 : f64}
           : (tensor<1x?x576xf32>, tensor<576xf32>) -> tensor<1x?x576xf32>
    """

    x: ext.Operand[Any]
    epsilon: ir.FloatAttr
    offset: ir.FloatAttr
    out: ext.Result[Any]
    weight: ext.Operand[Any] | None = None

    @verified
    def verify_invariants(self) -> None:
        """Checks that the weight fits x's last dimension."""
        shape = tensor_of(self.x, "x", at_least=1)
        floats("x", self.x)
        if self.weight is None:
            static("x", self.x, len(shape) - 1)
            averaged("x", self.x)
            fault = f"must be 0 without a weight, but is {self.offset.value}"
            require(self.offset.value == 0, fault, "offset")
        else:
            stored = tensor_of(self.weight, "weight", 1)
            same_element("weight", self.weight, self.x)
            static("weight", self.weight)
            averaged("weight", self.weight)
            same("weight", "its length", stored[0], shape[-1])
        like("out", self.out, "x", self.x)
        not_negative("epsilon", self.epsilon, self.x)
        number("offset", self.offset, self.x)

    def sharding(self) -> ShardingRule:
        """By rows."""
        return by_letters(self, x="*.", out="*.")

    @staticmethod
    def reference(
        x: np.ndarray, weight: np.ndarray | None, epsilon: float, offset: float = 0.0
    ) -> np.ndarray:
        """`x [..., N]`, `weight [N]` -> `[..., N]`."""
        normed = x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + epsilon)
        return normed if weight is None else normed * (offset + weight)

    def lower(self) -> ir.Value:
        """A reduction for the mean square, then one elementwise operation."""
        element = self.x.type.element_type
        rows = letters(self.x.type.rank - 1)
        squares = reduce(
            f"{rows}n->{rows}", lambda x, sum_: arith.addf(sum_, arith.mulf(x, x)), 0.0, self.x
        )
        width = (self.x if self.weight is None else self.weight).type.shape[-1]

        def normalise(x: ir.Value, square: ir.Value, *rest: ir.Value) -> ir.Value:
            mean = arith.divf(square, constant(float(width), element))
            scale = math.rsqrt(arith.addf(mean, constant(self.epsilon.value, element)))
            normed = arith.mulf(x, scale)
            if self.weight is None:
                return normed
            weight, _ = rest
            if self.offset.value:
                weight = arith.addf(weight, constant(self.offset.value, element))
            return arith.mulf(normed, weight)

        if self.weight is None:
            return pointwise(f"{rows}n,{rows}->{rows}n", normalise, self.x, squares)
        return pointwise(f"{rows}n,{rows},n->{rows}n", normalise, self.x, squares, self.weight)
