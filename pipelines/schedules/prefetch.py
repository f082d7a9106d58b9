"""`llmc_transform.prefetch`: a transform operation of our own, which MLIR lacks."""

from itertools import product
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import arith, bufferization, ext, memref, scf, transform, vector

from llmc.dialects.index_notation import index
from llmc.pipelines.schedules.splat_reads import is_dim, transfer_reads
from llmc.pipelines.schedules.transform_dialect import ModifiesPayload, Operation, Rewriting

PANELS, ROWS = -3, -2
"""Dimensions of a weight in panels, `[..., P, K, J]`."""

_SECOND_CACHE = 2
"""What memref calls it to be wanted there: the first is too small for what comes so much later."""


class Interpretation(Rewriting):
    """What MLIR's interpreter does at the operation."""

    @staticmethod
    def rewrite(op: Any, target: ir.Operation, _rewriter: transform.TransformRewriter) -> None:
        """Prefetches what the reads in it will want."""
        for read in transfer_reads(target):
            if _walks(read, op.dimension.value):
                with ir.InsertionPoint(read), read.location:
                    _prefetch(read, op.dimension.value, op.ahead.value)


class PrefetchOp(Operation, name="prefetch", traits=[Interpretation, ModifiesPayload]):
    """Asks memory for what loops read of arguments `ahead` further along `dimension`, -1 the last.

    The CPU does so by itself, but only up to the end of a page of memory.

        "llmc_transform.prefetch"(%scope) {dimension = -2 : i64, ahead = 32 : i64}
              : (!transform.any_op) -> ()
    """

    scope: ext.Operand[Any]
    dimension: ir.IntegerAttr
    ahead: ir.IntegerAttr


def _walks(read: vector.TransferReadOp, dimension: int) -> bool:
    """Whether it is of an argument, along `dimension` of which, a static one, a loop walks."""
    type_ = ir.RankedTensorType(read.base.type)
    if not isinstance(read.base.owner, ir.Block) or type_.rank < -dimension:
        return False
    is_static = not type_.is_dynamic_dim(type_.rank + dimension)
    return is_static and _is_moved(read.indices[dimension])


def _is_moved(position: ir.Value) -> bool:
    if isinstance(position.owner, ir.Block):
        return isinstance(position.owner.owner, scf.ForOp)
    return any(map(_is_moved, position.owner.operands))


def _prefetch(read: vector.TransferReadOp, dimension: int, ahead: int) -> None:
    type_ = ir.RankedTensorType(read.base.type)
    buffer = bufferization.to_buffer(
        ir.MemRefType.get(type_.shape, type_.element_type), read.base, read_only=True
    )
    *dims, _ = zip(read.permutation_map.value.results, read.vector.type.shape, strict=True)
    outer = [(ir.AffineDimExpr(dim).position, extent) for dim, extent in dims if is_dim(dim)]
    for place in product(*(range(extent) for _, extent in outer)):
        position = list(read.indices)
        position[dimension] = arith.addi(position[dimension], index(ahead))
        for (dim, _), offset in zip(outer, place, strict=True):
            position[dim] = arith.addi(position[dim], index(offset))
        memref.prefetch(buffer, position, False, _SECOND_CACHE, True)
