"""`llmc.quantized_linear`: a linear layer whose weight is blocks."""

from fractions import Fraction
from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import ext
from torch_mlir.extras import types as T

from llmc.dialects.block_layout import dequantize, unpack
from llmc.dialects.block_product import sum_blocks
from llmc.dialects.blocks import decode
from llmc.dialects.checks import (
    blocks,
    element_is,
    same,
    shaped,
    static,
    tensor_of,
    typed,
    verified,
)
from llmc.dialects.index_notation import contract
from llmc.dialects.linear_rows import merged, on_rows
from llmc.dialects.llmc import Operation
from llmc.dialects.quantize import in_rows
from llmc.dialects.sharding_rule import Dim, ShardingRule, by_letters


class QuantizedLinearOp(Operation, name="quantized_linear", traits=[ext.Pure]):
    """`x [..., K]` times the transpose of the blocks `weight [N, K/G]`, plus `bias [N]` if given.

    G is how many values a block holds. Without `scales` x is f32, and the weight is what
    `llmc.dequantize` gives. With them x is i8, as `llmc.quantize_rows` gives both for groups of G:
    the products of a block are summed in integers, and each sum is scaled once. Sums over blocks
    are kept in f32.

        %y = "llmc.quantized_linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0, 0>}
           : (tensor<1x?x576xf32>, tensor<1536x18x!llmc.q4_1>) -> tensor<1x?x1536xf32>
    """

    x: ext.Operand[Any]
    weight: ext.Operand[Any]
    out: ext.Result[Any]
    scales: ext.Operand[Any] | None = None
    bias: ext.Operand[Any] | None = None

    @verified
    def verify_invariants(self) -> None:
        """Checks K and N across operands, that blocks fill K, and element types."""
        *leading, inputs = tensor_of(self.x, "x", at_least=2)
        outputs, per_row = tensor_of(self.weight, "weight", 2)
        format_ = blocks("weight", self.weight)
        static("weight", self.weight)
        same("x", "its last dimension", inputs, per_row * format_.values)
        element_is("x", self.x, "f32" if self.scales is None else "i8")
        if self.scales is not None:
            shape = [*self.x.type.shape[:-1], per_row]
            expected = ir.RankedTensorType.get(shape, T.f32())
            typed("scales", self.scales, expected)
        if self.bias is not None:
            same("bias", "its length", tensor_of(self.bias, "bias", 1)[0], outputs)
            element_is("bias", self.bias, "f32")
        shaped("out", self.out, [*leading, outputs])
        element_is("out", self.out, "f32")

    def sharding(self) -> ShardingRule:
        """By outputs, by rows, or by inputs, whole blocks of them, which leaves sums."""
        blocks_of = Dim("k", Fraction(1, self.weight.type.element_type.format.values))
        return by_letters(
            self, "k", dims={"c": blocks_of}, x="*k", weight="nc", scales="*c", bias="n", out="*n"
        )

    @staticmethod
    def reference(
        x: np.ndarray,
        weight: np.ndarray,
        scales: np.ndarray | None = None,
        bias: np.ndarray | None = None,
    ) -> np.ndarray:
        """`x [..., K]`, blocks `[N, K/G]` -> `[..., N]`."""
        if scales is not None:
            x = x * np.repeat(scales, x.shape[-1] // scales.shape[-1], axis=-1)
        y = x @ decode(weight).T
        return y if bias is None else y + bias

    def lower(self) -> ir.Value:
        """A contraction over the rows of x: with the weight as floats, or block by block."""
        multiply = self._on_floats if self.scales is None else self._on_integers
        return on_rows(self.x, multiply, self.bias)

    def _on_floats(self, rows: ir.Value) -> ir.Value:
        return contract("tk,nk->tn", rows, dequantize(self.weight))

    def _on_integers(self, rows: ir.Value) -> ir.Value:
        format_ = self.weight.type.element_type.format
        x = in_rows(rows, format_.values)
        return sum_blocks(x, merged(self.scales), unpack(self.weight), "nb")
