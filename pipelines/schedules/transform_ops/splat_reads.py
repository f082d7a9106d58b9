"""`llmc_transform.splat_reads`: reads one by one what a vector repeats."""

from itertools import product
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import arith, ext, tensor, transform, vector

from llmc.dialects.index_notation import index
from llmc.pipelines.schedules.transform_ops.dialect import ModifiesPayload, Operation, Rewriting
from llmc.pipelines.walks import find


class Interpretation(Rewriting):
    """What MLIR's interpreter does at the operation."""

    @staticmethod
    def rewrite(_op: Any, target: ir.Operation, rewriter: transform.TransformRewriter) -> None:
        """Replaces the reads in it."""
        for read in transfer_reads(target):
            if _repeats_elements(read):
                with ir.InsertionPoint(read), read.location:
                    rewriter.replace_op(read, [_splat(read)])


class SplatReadsOp(Operation, name="splat_reads", traits=[Interpretation, ModifiesPayload]):
    """Reads one by one the elements that a vector read from a tensor repeats.

    A vector.transfer_read that repeats elements along its innermost dimension becomes one
    tensor.extract for each, and a vector.broadcast. MLIR reads the elements as a vector, across
    the rows of the tensor, and transposes it.

        "llmc_transform.splat_reads"(%scope) : (!transform.any_op) -> ()
    """

    scope: ext.Operand[Any]


def transfer_reads(scope: ir.Operation) -> list[vector.TransferReadOp]:
    """The vector.transfer_read operations in `scope` that read whole vectors from tensors."""
    reads = (op.opview for op in find(scope, "vector.transfer_read"))
    return [read for read in reads if _reads_whole(read)]


def _reads_whole(read: vector.TransferReadOp) -> bool:
    in_bounds = all(ir.BoolAttr(flag).value for flag in read.in_bounds)
    return in_bounds and read.mask is None and isinstance(read.base.type, ir.RankedTensorType)


def _repeats_elements(read: vector.TransferReadOp) -> bool:
    dims = read.permutation_map.value.results
    return len(dims) > 0 and not is_dim(dims[-1])


def _splat(read: vector.TransferReadOp) -> ir.Value:
    type_, dims = ir.VectorType(read.vector.type), list(read.permutation_map.value.results)
    extents = [e if is_dim(dim) else 1 for dim, e in zip(dims, type_.shape, strict=True)]
    elements = []
    for place in product(*map(range, extents)):
        indices = list(read.indices)
        for dim, offset in zip(dims, place, strict=True):
            if is_dim(dim):
                at = ir.AffineDimExpr(dim).position
                indices[at] = arith.addi(indices[at], index(offset))
        elements.append(tensor.extract(read.base, indices))
    once = vector.from_elements(ir.VectorType.get(extents, type_.element_type), elements)
    return vector.broadcast(type_, once)


def is_dim(expression: ir.AffineExpr) -> bool:
    """Whether a result of a map is one of its dimensions, and not a constant."""
    return isinstance(expression, ir.AffineDimExpr)
