"""`llmc_transform.use_tile_registers`: makes tile registers ready in a kernel's workgroups."""

from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import ext, transform

from llmc.pipelines.errors import fail
from llmc.pipelines.schedules.transform_ops.dialect import ModifiesPayload, Operation, Rewriting
from llmc.pipelines.schedules.transform_ops.tile_registers import configure, release


class Interpretation(Rewriting):
    """What MLIR's interpreter does at the operation."""

    @staticmethod
    def rewrite(_op: Any, target: ir.Operation, _rewriter: transform.TransformRewriter) -> None:
        """Begins and ends the body of a grid."""
        if (name := target.operation.name) != "scf.forall":
            fail(target, f"tile registers are for the workgroups of a grid, not '{name}'")
        body = list(target.opview.body)
        with ir.InsertionPoint(body[0]):
            configure()
        with ir.InsertionPoint(body[-1]):
            release()


class UseTileRegistersOp(
    Operation, name="use_tile_registers", traits=[Interpretation, ModifiesPayload]
):
    """Sets up the tile registers where a workgroup of the grid begins, and lets go of them after.

    "llmc_transform.use_tile_registers"(%grid) : (!transform.any_op) -> ()
    """

    grid: ext.Operand[Any]
