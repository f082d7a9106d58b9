"""`llmc.combine_experts`: what the experts of a row make of it, added up."""

from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, ext

from llmc.dialects.checks import (
    filled,
    floats,
    multiple,
    same,
    same_element,
    shaped,
    static,
    tensor_of,
    verified,
)
from llmc.dialects.index_notation import contract, expand, index, sizes
from llmc.dialects.llmc import Operation
from llmc.dialects.sharding_rule import ShardingRule, by_letters


class CombineExpertsOp(Operation, name="combine_experts", traits=[ext.Pure]):
    """Rows of `y [R * C, N]`, C together, each times its number in `weights [R, C]`.

    Row r of the result is the sum of `weights[r, c] * y[r * C + c]`.

        %sum = "llmc.combine_experts"(%y, %weights)
             : (tensor<8x256xf32>, tensor<1x8xf32>) -> tensor<1x256xf32>
    """

    y: ext.Operand[Any]
    weights: ext.Operand[Any]
    out: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks extents and element types."""
        added_up_of(self.y, self.weights, self.out)

    def sharding(self) -> ShardingRule:
        """By channels."""
        return by_letters(self, y=".n", weights="..", out=".n")

    @staticmethod
    def reference(y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """`y [R * C, N]`, `weights [R, C]` -> `[R, N]`."""
        return np.einsum("rcn,rc->rn", y.reshape(*weights.shape, -1), weights)

    def lower(self) -> ir.Value:
        """A contraction over the experts of each row."""
        (count, columns), (_, chosen) = sizes(self.y), self.weights.type.shape
        is_known = isinstance(count, int)
        rows = count // chosen if is_known else arith.divui(count, index(chosen))
        return contract("rcn,rc->rn", expand(self.y, [[rows, chosen], [columns]]), self.weights)


def added_up_of(y: ir.Value, weights: ir.Value, out: ir.Value) -> int | None:
    """Checks that `out [R, N]` can be sums of `y [R * C, N]` by `weights [R, C]`; returns R * C."""
    rows, columns = tensor_of(y, "y", 2)
    count, chosen = tensor_of(weights, "weights", 2)
    floats("y", y)
    same_element("weights", weights, y)
    static("weights", weights, 1)
    filled("weights", weights, 1)
    shaped("out", out, [count, columns])
    for known in (count, tensor_of(out, "out")[0]):
        same("y", "dimension 0", rows, None if known is None else known * chosen)
    multiple("y", "dimension 0", rows, chosen)
    same_element("out", out, y)
    return rows
