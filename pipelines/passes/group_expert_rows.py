"""`group-expert-rows`: lets rows that chose the same expert share what is read of it."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from torch_mlir import ir

from llmc.dialects import GroupedExpertLinearOp, GroupRowsOp, PackedExpertLinearOp
from llmc.pipelines.option_text import Range
from llmc.pipelines.passes.base import Pass, find


@dataclass(frozen=True)
class GroupExpertRows(Pass):
    """Turns `llmc.packed_expert_linear` on a dynamic number of rows into its grouped form.

    A static number of rows is one token's: its experts differ, and there is nothing to group. CSE
    leaves one `llmc.group_rows` to the layers that follow the same choice. `tile` rows are computed
    together.
    """

    name: ClassVar[str] = "group-expert-rows"
    tile: Annotated[int, Range(1, 4096)] = 8

    def apply(self, module: ir.Module) -> None:
        """Rewrites every layer whose number of rows is dynamic."""
        for op in find(module.operation, "llmc.packed_expert_linear"):
            if op.opview.out.type.is_dynamic_dim(0):
                self._group(op.opview)

    def _group(self, layer: PackedExpertLinearOp) -> None:
        i32, i64 = (ir.IntegerType.get_signless(width) for width in (32, 64))
        experts = layer.weight.type.shape[0]
        with ir.InsertionPoint(layer), layer.location:
            groups = GroupRowsOp(
                layer.expert,
                ir.RankedTensorType.get(layer.expert.type.shape, i32),
                ir.RankedTensorType.get([experts + 1], i32),
            )
            new = GroupedExpertLinearOp(
                layer.x,
                groups.order,
                groups.first,
                layer.weight,
                ir.IntegerAttr.get(i64, self.tile),
                layer.top_k,
                layer.out.type,
            )
        layer.out.replace_all_uses_with(new.out)
        layer.operation.erase()
