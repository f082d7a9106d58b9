"""`llmc_transform.prefetch_first`: asks memory for what a workgroup reads first."""

from collections import defaultdict
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import ext, scf, transform, vector

from llmc.dialects.index_notation import index
from llmc.pipelines.clones import clone_with
from llmc.pipelines.schedules.transform_ops.dialect import ModifiesPayload, Operation, Rewriting
from llmc.pipelines.schedules.transform_ops.prefetch import Line, depends_on, prefetch_lines, walks
from llmc.pipelines.schedules.transform_ops.splat_reads import is_dim, transfer_reads

_WORKGROUPS = "scf.forall"


class Interpretation(Rewriting):
    """What MLIR's interpreter does at the operation."""

    @staticmethod
    def rewrite(op: Any, target: ir.Operation, _rewriter: transform.TransformRewriter) -> None:
        """Prefetches what the workgroups in it will read first."""
        dimension, reads = op.dimension.value, defaultdict(list)
        for read in transfer_reads(target):
            workgroup = _workgroup_around(read)
            if workgroup is not None and _begins(read, dimension):
                reads[workgroup].append(read)
        for workgroup, own in reads.items():
            with ir.InsertionPoint.at_block_begin(workgroup.regions[0].blocks[0]):
                _prefetch_first(own, dimension, op.count.value)


class PrefetchFirstOp(Operation, name="prefetch_first", traits=[Interpretation, ModifiesPayload]):
    """Asks memory, where a workgroup begins, for what its loops read first of arguments.

    That is the first `count` along `dimension`, -1 being the last, which loops walk along.

        "llmc_transform.prefetch_first"(%scope) {dimension = -2 : i64, count = 32 : i64}
              : (!transform.any_op) -> ()
    """

    scope: ext.Operand[Any]
    dimension: ir.IntegerAttr
    count: ir.IntegerAttr


def _workgroup_around(read: vector.TransferReadOp) -> ir.Operation | None:
    """The loop over workgroups that `read` is in."""
    around = read.operation
    while around is not None and around.name != _WORKGROUPS:
        around = around.parent and around.parent.operation
    return around


def _begins(read: vector.TransferReadOp, dimension: int) -> bool:
    """Whether it is of an argument that loops walk along `dimension`, from the first place on."""
    return walks(read, dimension) and not depends_on(read.indices[dimension], _WORKGROUPS)


def _prefetch_first(reads: list[vector.TransferReadOp], dimension: int, count: int) -> None:
    """Asks for every line that one of `reads` has of each of the first `count`."""
    asked: set[Line] = set()
    known: dict[ir.Value, ir.Value] = {}
    starts = [[_start(each, known) for each in read.indices] for read in reads]
    at_once = min(_extent(read, dimension) for read in reads)
    for number in scf.for_(index(0), index(count), index(at_once)):
        for read, start in zip(reads, starts, strict=True):
            start[dimension] = number
            prefetch_lines(read, start, dimension, 0, asked)
        scf.yield_([])


def _extent(read: vector.TransferReadOp, dimension: int) -> int:
    """How many of `dimension` are in what is read."""
    walked = ir.RankedTensorType(read.base.type).rank + dimension
    dims = zip(read.permutation_map.value.results, read.vector.type.shape, strict=True)
    of_walked = (e for dim, e in dims if is_dim(dim) and ir.AffineDimExpr(dim).position == walked)
    return next(of_walked, 1)


def _start(value: ir.Value, known: dict[ir.Value, ir.Value]) -> ir.Value:
    """What `value` is in the first round of all loops around it."""
    if value in known:
        return known[value]
    owner = value.owner
    if isinstance(owner, ir.Block):
        loop = owner.owner
        is_for = loop.name == "scf.for"
        known[value] = _start(loop.operands[0], known) if is_for else value
    else:
        for operand in owner.operands:
            _start(operand, known)
        clone_with(owner.operation, known)
    return known[value]
