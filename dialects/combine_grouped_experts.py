"""`llmc.combine_grouped_experts`: what experts make of a row, added up from where they lie."""

from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, ext, tensor
from torch_mlir.extras import types as T

from llmc.dialects.checks import element_is, same, same_element, shaped, tensor_of, verified
from llmc.dialects.combine_experts import added_up_of
from llmc.dialects.index_notation import index, loop_index, pointwise, reduce, size
from llmc.dialects.llmc import Operation


class CombineGroupedExpertsOp(Operation, name="combine_grouped_experts", traits=[ext.Pure]):
    """`llmc.combine_experts` of rows of `y [R * C, N]` in the order of groups.

    Row r of the result is the sum of `weights[r, c] * y[place[r * C + c]]`, `place` being the third
    result of `llmc.group_rows`, and of `residual [R, N]` if there is one.

        %sum = "llmc.combine_grouped_experts"(%y, %place, %weights)
             {operandSegmentSizes = array<i32: 1, 1, 1, 0>}
             : (tensor<?x256xf32>, tensor<?xi32>, tensor<?x8xf32>) -> tensor<?x256xf32>
    """

    y: ext.Operand[Any]
    place: ext.Operand[Any]
    weights: ext.Operand[Any]
    out: ext.Result[Any]
    residual: ext.Operand[Any] | None = None

    @verified
    def verify_invariants(self) -> None:
        """Checks extents and element types."""
        rows = added_up_of(self.y, self.weights, self.out)
        same("place", "its length", tensor_of(self.place, "place", 1)[0], rows)
        element_is("place", self.place, "i32")
        if self.residual is not None:
            shaped("residual", self.residual, self.out.type.shape)
            same_element("residual", self.residual, self.out)

    @staticmethod
    def reference(
        y: np.ndarray,
        place: np.ndarray,
        weights: np.ndarray,
        residual: np.ndarray | float = 0.0,
    ) -> np.ndarray:
        """`y [R * C, N]`, `place [R * C]`, `weights [R, C]` -> `[R, N]`, as the residual is."""
        return np.einsum("rcn,rc->rn", y[place].reshape(*weights.shape, -1), weights) + residual

    def lower(self) -> ir.Value:
        """A sum over the experts of each row, whose numbers are read one by one."""
        _, chosen = self.weights.type.shape

        def multiply_add(weight: ir.Value, sum_: ir.Value) -> ir.Value:
            row, column, number = map(loop_index, range(3))
            own = arith.addi(arith.muli(row, index(chosen)), number)
            where = arith.index_cast(T.index(), tensor.extract(self.place, [own]))
            return arith.addf(sum_, arith.mulf(weight, tensor.extract(self.y, [where, column])))

        sums = reduce("rc->rn", multiply_add, 0.0, self.weights, n=size(self.y, 1))
        if self.residual is None:
            return sums
        return pointwise("rn,rn->rn", lambda x, y, _: arith.addf(x, y), sums, self.residual)
