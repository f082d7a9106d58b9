"""`llmc.linear`: a linear layer."""

from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import ext

from llmc.dialects.checks import (
    flag,
    floats,
    same,
    same_element,
    shaped,
    static,
    tensor_of,
    verified,
)
from llmc.dialects.index_notation import contract
from llmc.dialects.linear_rows import on_rows
from llmc.dialects.llmc import Operation
from llmc.dialects.parameter import stored_unit
from llmc.dialects.sharding_rule import ShardingRule, by_letters


class LinearOp(Operation, name="linear", traits=[ext.Pure]):
    """`x [..., K]` times the transpose of `weight [N, K]`, plus `bias [N]` where given.

    `transposed` 1: the weight is stored `[K, N]`. Its element type may be narrower than x's; sums
    are kept in x's type.

        %y = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}
           : (tensor<1x?x576xf32>, tensor<1536x576xf16>) -> tensor<1x?x1536xf32>
    """

    x: ext.Operand[Any]
    weight: ext.Operand[Any]
    transposed: ir.IntegerAttr
    out: ext.Result[Any]
    bias: ext.Operand[Any] | None = None

    @verified
    def verify_invariants(self) -> None:
        """Checks K and N across operands."""
        shape, stored = tensor_of(self.x, "x", at_least=2), tensor_of(self.weight, "weight", 2)
        floats("x", self.x)
        floats("weight", self.weight, widened_to=self.x)
        static("weight", self.weight)
        flag("transposed", self.transposed)
        outputs, inputs = self._outputs_and_inputs(stored)
        same("x", "its last dimension", shape[-1], inputs)
        if self.bias is not None:
            same("bias", "its length", tensor_of(self.bias, "bias", 1)[0], outputs)
            same_element("bias", self.bias, self.x)
        shaped("out", self.out, [*shape[:-1], outputs])
        same_element("out", self.out, self.x)

    def sharding(self) -> ShardingRule:
        """By outputs, by rows, or by inputs, which leaves sums."""
        stored = "kn" if self.transposed.value else "nk"
        in_row = {stored[-1]: stored_unit(self.weight)}
        return by_letters(self, sums="k", units=in_row, x="*k", weight=stored, bias="n", out="*n")

    @staticmethod
    def reference(
        x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None = None, transposed: bool = False
    ) -> np.ndarray:
        """`x [..., K]`, `weight [N, K]`, or `[K, N]` if transposed -> `[..., N]`."""
        y = x @ (weight if transposed else weight.T)
        return y if bias is None else y + bias

    def lower(self) -> ir.Value:
        """A contraction over the rows of x, all leading dimensions merged."""
        notation = f"tk,{'kn' if self.transposed.value else 'nk'}->tn"
        return on_rows(self.x, lambda rows: contract(notation, rows, self.weight), self.bias)

    def _outputs_and_inputs(self, shape: list[int]) -> tuple[int, int]:
        first, second = shape
        return (second, first) if self.transposed.value else (first, second)
