"""`llmc_transform.use_tile_registers`: makes tile registers ready in a kernel's workgroups."""

from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import ext, transform

from llmc.pipelines.schedules.tile_registers import configure, release
from llmc.pipelines.schedules.transform_dialect import ModifiesPayload, Operation


class Interpretation(transform.TransformOpInterface):
    """What MLIR's interpreter does at the operation."""

    @staticmethod
    def apply(
        op: Any,
        _rewriter: transform.TransformRewriter,
        _results: transform.TransformResults,
        state: transform.TransformState,
    ) -> transform.DiagnosedSilenceableFailure:
        """Rewrites the payload."""
        for grid in state.get_payload_ops(op.grid):
            body = list(grid.opview.body)
            with grid.location:
                with ir.InsertionPoint(body[0]):
                    configure()
                with ir.InsertionPoint(body[-1]):
                    release()
        return transform.DiagnosedSilenceableFailure.Success

    @staticmethod
    def allow_repeated_handle_operands(_op: Any) -> bool:
        """An operation of the payload may not be given twice."""
        return False


class UseTileRegistersOp(
    Operation, name="use_tile_registers", traits=[Interpretation, ModifiesPayload]
):
    """Sets up the tile registers where a workgroup of the grid begins, and lets go of them after.

    "llmc_transform.use_tile_registers"(%grid) : (!transform.any_op) -> ()
    """

    grid: ext.Operand[Any]
