"""`llmc.packed_expert_linear`, `llmc.grouped_expert_linear`: experts laid out for their kernels."""

from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import ext

from llmc.dialects.checks import integers, require, same, static, tensor_of, verified
from llmc.dialects.expert_linear import check_expert_rows
from llmc.dialects.llmc import Operation


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
        rows = _check_product(self)
        same("expert", "its length", tensor_of(self.expert, "expert", 1)[0], rows)
        integers("expert", self.expert)


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
        rows = _check_product(self)
        same("order", "its length", tensor_of(self.order, "order", 1)[0], rows)
        experts = tensor_of(self.weight, "weight", 4)[0]
        same("first", "its length", tensor_of(self.first, "first", 1)[0], experts + 1)
        integers("order", self.order)
        integers("first", self.first)
        require(self.tile.value > 0, "attribute 'tile' must be positive")


def _check_product(op: Any) -> int | None:
    """Checks `x`, `weight` and `out`; the result's rows."""
    stored = tensor_of(op.weight, "weight", 4)
    static("weight", op.weight)
    _, panels, inputs, columns = stored
    rows, outputs = tensor_of(op.out, "out", 2)
    static("out", op.out, 1)
    same("weight", "its panels", panels, -(-outputs // columns))
    check_expert_rows(op, inputs, outputs)
    return rows
