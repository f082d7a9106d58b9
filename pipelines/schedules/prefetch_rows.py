"""`llmc_transform.prefetch_rows`: a transform operation of our own, which MLIR lacks."""

from itertools import product
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import arith, bufferization, ext, memref, transform, vector

from llmc.dialects.index_notation import index
from llmc.pipelines.schedules.splat_reads import is_dim, transfer_reads
from llmc.pipelines.schedules.transform_dialect import ModifiesPayload, Operation

_SECOND_CACHE = 2


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
        for scope in state.get_payload_ops(op.scope):
            for read in transfer_reads(scope):
                row = _row(read)
                if row is not None:
                    with ir.InsertionPoint(read), read.location:
                        _prefetch(read, row, op.ahead.value)
        return transform.DiagnosedSilenceableFailure.Success

    @staticmethod
    def allow_repeated_handle_operands(_op: Any) -> bool:
        """An operation of the payload may not be given twice."""
        return False


class PrefetchRowsOp(Operation, name="prefetch_rows", traits=[Interpretation, ModifiesPayload]):
    """Asks memory for the rows of an argument that a loop over rows reads `ahead` rounds later.

    The CPU does so by itself, but only up to the end of a page of memory.

        "llmc_transform.prefetch_rows"(%scope) {ahead = 32 : i64} : (!transform.any_op) -> ()
    """

    scope: ext.Operand[Any]
    ahead: ir.IntegerAttr


def _row(read: vector.TransferReadOp) -> int | None:
    """The dimension along which the loop around a read of an argument walks; None without one."""
    loop = read.operation.parent
    if loop.name != "scf.for" or not isinstance(read.base.owner, ir.Block):
        return None
    variable = loop.opview.induction_variable
    *outer, _ = read.indices
    walks = [_moves_with(position, variable) for position in outer]
    return walks.index(True) if any(walks) else None


def _moves_with(position: ir.Value, variable: ir.Value) -> bool:
    if position == variable or isinstance(position.owner, ir.Block):
        return position == variable
    return position.owner.name == "arith.addi" and variable in list(position.owner.operands)


def _prefetch(read: vector.TransferReadOp, row: int, ahead: int) -> None:
    type_ = ir.RankedTensorType(read.base.type)
    buffer = bufferization.to_buffer(
        ir.MemRefType.get(type_.shape, type_.element_type), read.base, read_only=True
    )
    *dims, _ = zip(read.permutation_map.value.results, read.vector.type.shape, strict=True)
    outer = [(ir.AffineDimExpr(dim).position, extent) for dim, extent in dims if is_dim(dim)]
    for place in product(*(range(extent) for _, extent in outer)):
        position = list(read.indices)
        position[row] = arith.addi(position[row], index(ahead))
        for (dim, _), offset in zip(outer, place, strict=True):
            position[dim] = arith.addi(position[dim], index(offset))
        memref.prefetch(buffer, position, False, _SECOND_CACHE, True)
