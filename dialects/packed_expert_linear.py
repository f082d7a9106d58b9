"""`llmc.packed_expert_linear`, `llmc.grouped_expert_linear`: experts laid out for their kernels."""

from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, ext

from llmc.dialects.checks import counts, floats, integers, same, static, tensor_of, verified
from llmc.dialects.expert_linear import ExpertLinearOp, check_expert_rows, contract_chosen
from llmc.dialects.group_rows import add_if, inverse
from llmc.dialects.index_notation import index, reduce
from llmc.dialects.llmc import Operation
from llmc.dialects.packed_linear import check_panels, unpack_panels


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
        _check_product(self, "expert")

    @staticmethod
    def reference(
        x: np.ndarray, expert: np.ndarray, weight: np.ndarray, top_k: int, outputs: int
    ) -> np.ndarray:
        """`x [R, K]`, `expert [R * top_k]`, `weight [E, N/J, K, J]` -> `[R * top_k, N]`."""
        return ExpertLinearOp.reference(x, expert, unpack_panels(weight, outputs), top_k)

    def lower(self) -> ir.Value:
        """A contraction that reads the chosen matrix where it lies."""
        return _contract_packed(self, self.expert)


class GroupedExpertLinearOp(Operation, name="grouped_expert_linear", traits=[ext.Pure]):
    """`llmc.packed_expert_linear` for rows that `llmc.group_rows` has grouped by expert.

    A matrix is read once for all its rows, `tile` of which are computed together. The result's rows
    are in the order of `expert`, not in that of the groups. Gale et al., "MegaBlocks", 2022.

        %y = "llmc.grouped_expert_linear"(%x, %order, %first, %w) {tile = 8 : i64, top_k = 8 : i64}
           : (tensor<?x64xf32>, tensor<?xi32>, tensor<17xi32>, tensor<16x16x64x16xf32>)
           -> tensor<?x256xf32>
    """

    x: ext.Operand[Any]
    order: ext.Operand[Any]
    first: ext.Operand[Any]
    weight: ext.Operand[Any]
    tile: ir.IntegerAttr
    top_k: ir.IntegerAttr
    out: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks rows, K, N and E across operands."""
        _check_product(self, "order")
        experts = tensor_of(self.weight, "weight", 4)[0]
        same("first", "its length", tensor_of(self.first, "first", 1)[0], experts + 1)
        integers("first", self.first)
        counts("tile", self.tile)

    @staticmethod
    def reference(
        x: np.ndarray,
        order: np.ndarray,
        first: np.ndarray,
        weight: np.ndarray,
        top_k: int,
        outputs: int,
    ) -> np.ndarray:
        """`x [R, K]`, `order [C]`, `first [E + 1]`, `weight [E, N/J, K, J]` -> `[C, N]`."""
        expert = np.empty_like(order)
        for number in range(len(first) - 1):
            expert[order[first[number] : first[number + 1]]] = number
        return PackedExpertLinearOp.reference(x, expert, weight, top_k, outputs)

    def lower(self) -> ir.Value:
        """The expert of each row, and the same contraction as without groups."""
        return _contract_packed(self, self._expert())

    def _expert(self) -> ir.Value:
        """The group of the place that each row has in `order`: those that begin there or before."""

        def count(place: ir.Value, first: ir.Value, sum_: ir.Value) -> ir.Value:
            place, first = (arith.index_cast(ir.IndexType.get(), each) for each in (place, first))
            return add_if(arith.cmpi(arith.CmpIPredicate.sle, first, place), sum_)

        i64 = ir.IntegerType.get_signless(64)
        return reduce("r,e->r", count, -1, inverse(self.order), self.first, element=i64)


def _check_product(op: Any, per_row: str) -> None:
    """Checks `x`, `weight`, `out` and the operand that has an integer for each row of `out`."""
    inputs = tensor_of(op.weight, "weight", 4)[2]
    tensor_of(op.x, "x", 2)
    floats("x", op.x)
    floats("weight", op.weight, widened_to=op.x)
    _, outputs = tensor_of(op.out, "out", 2)
    static("out", op.out, 1)
    check_panels(op.weight, outputs)
    check_expert_rows(op, per_row, inputs, outputs)


def _contract_packed(op: Any, expert: ir.Value) -> ir.Value:
    columns = op.weight.type.shape[3]

    def place(expert: ir.Value, n: ir.Value, k: ir.Value) -> list[ir.Value]:
        width = index(columns)
        return [expert, arith.divui(n, width), k, arith.remui(n, width)]

    return contract_chosen(op, expert, op.weight, op.out.type.shape[1], place)
