"""`llmc.packed_expert_linear`, `llmc.grouped_expert_linear`: experts laid out for their kernels."""

from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, ext

from llmc.dialects.checks import (
    floats,
    same,
    shaped,
    static,
    tensor_of,
    verified,
)
from llmc.dialects.expert_linear import ExpertLinearOp, check_expert_rows, contract_chosen
from llmc.dialects.group_rows import check_groups, expert_of_rows, find_experts
from llmc.dialects.index_notation import index
from llmc.dialects.llmc import Operation
from llmc.dialects.packed_linear import check_float_panels, unpack_panels


class PackedExpertLinearOp(Operation, name="packed_expert_linear", traits=[ext.Pure]):
    """`llmc.expert_linear` with `weight [E, N/J, K, J]`, each matrix as in `llmc.packed_linear`.

    Every row reads its matrix: right for the rows of one token, whose experts differ.

        %y = "llmc.packed_expert_linear"(%x, %expert, %w) {top_k = 8 : i64}
           : (tensor<1x64xf32>, tensor<8xi64>, tensor<16x16x64x16xf32>) -> tensor<8x256xf32>
    """

    x: ext.Operand[Any]
    expert: ext.Operand[Any]
    weight: ext.Operand[Any]
    top_k: ir.IntegerAttr
    out: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks rows, K and N across operands."""
        inputs, outputs = _check_panels(self)
        check_expert_rows(self, "expert", inputs, outputs)

    @staticmethod
    def reference(
        x: np.ndarray, expert: np.ndarray, weight: np.ndarray, top_k: int, outputs: int
    ) -> np.ndarray:
        """`x [R, K]`, `expert [R * top_k]`, `weight [E, N/J, K, J]` -> `[R * top_k, N]`."""
        return ExpertLinearOp.reference(x, expert, unpack_panels(weight, outputs), top_k)

    def lower(self) -> ir.Value:
        """A contraction that reads the chosen matrix where it lies."""
        return _contract_packed(self, self.top_k.value, self.expert)


class GroupedExpertLinearOp(Operation, name="grouped_expert_linear", traits=[ext.Pure]):
    """`llmc.packed_expert_linear` of rows that lie one expert's after another's.

    Row r of the result is row r of `x [R, K]` through the matrix e for which r is from `first[e]`
    to `first[e + 1] - 1`, as `llmc.group_rows` gives them: each matrix is read once, for all its
    rows. Sums are kept in the type of the result, to which x and the weight are widened. Gale et
    al., "MegaBlocks", 2022.

        %y = "llmc.grouped_expert_linear"(%x, %first, %w)
           : (tensor<?x64xf32>, tensor<17xi32>, tensor<16x16x64x16xf32>) -> tensor<?x256xf32>
    """

    x: ext.Operand[Any]
    first: ext.Operand[Any]
    weight: ext.Operand[Any]
    out: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks rows, K, N and E across operands, and element types."""
        inputs, outputs = _check_panels(self)
        rows, width = tensor_of(self.x, "x", 2)
        same("x", "its last dimension", width, inputs)
        shaped("out", self.out, [rows, outputs])
        check_groups(self)

    @staticmethod
    def reference(x: np.ndarray, first: np.ndarray, weight: np.ndarray, outputs: int) -> np.ndarray:
        """`x [R, K]`, `first [E + 1]`, `weight [E, N/J, K, J]` -> `[R, N]`."""
        return PackedExpertLinearOp.reference(x, expert_of_rows(first), weight, 1, outputs)

    def lower(self) -> ir.Value:
        """The expert of each row, and the same contraction as without groups."""
        return _contract_packed(self, 1, find_experts(self))


def _check_panels(op: Any) -> tuple[int, int]:
    """Checks the element types of `x` and `weight`, and the panels of this; returns K and N."""
    inputs = tensor_of(op.weight, "weight", 4)[2]
    tensor_of(op.x, "x", 2)
    _, outputs = tensor_of(op.out, "out", 2)
    floats("out", op.out)
    floats("x", op.x, widened_to=op.out)
    floats("weight", op.weight, widened_to=op.out)
    static("out", op.out, 1)
    check_float_panels(op.weight, outputs)
    return inputs, outputs


def _contract_packed(op: Any, top_k: int, expert: ir.Value) -> ir.Value:
    columns = op.weight.type.shape[3]

    def place(expert: ir.Value, n: ir.Value, k: ir.Value) -> list[ir.Value]:
        width = index(columns)
        return [expert, arith.divui(n, width), k, arith.remui(n, width)]

    return contract_chosen(op, top_k, expert, op.weight, op.out.type.shape[1], place)
