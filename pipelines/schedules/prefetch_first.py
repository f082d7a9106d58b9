"""`llmc_transform.prefetch_first`: a transform operation of our own, which MLIR lacks."""

from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import ext, scf, transform, vector

from llmc.dialects.index_notation import index
from llmc.pipelines.schedules.prefetch import Line, line_of, line_offsets, prefetch_line, walks
from llmc.pipelines.schedules.splat_reads import transfer_reads
from llmc.pipelines.schedules.transform_dialect import ModifiesPayload, Operation, Rewriting
from llmc.pipelines.walks import find


class Interpretation(Rewriting):
    """What MLIR's interpreter does at the operation."""

    @staticmethod
    def rewrite(op: Any, target: ir.Operation, _rewriter: transform.TransformRewriter) -> None:
        """Prefetches what the workgroups in it will read first."""
        for workgroup in find(target, "scf.forall"):
            reads = [
                read
                for read in transfer_reads(workgroup)
                if _begins(read, op.dimension.value) and _is_directly_in(workgroup, read)
            ]
            if reads:
                with ir.InsertionPoint.at_block_begin(workgroup.regions[0].blocks[0]):
                    _prefetch_first(reads, op.dimension.value, op.count.value)


class PrefetchFirstOp(Operation, name="prefetch_first", traits=[Interpretation, ModifiesPayload]):
    """Asks memory, where a workgroup begins, for what its loops read first of arguments.

    That is the first `count` along `dimension`, -1 being the last, which loops walk along.

        "llmc_transform.prefetch_first"(%scope) {dimension = -2 : i64, count = 32 : i64}
              : (!transform.any_op) -> ()
    """

    scope: ext.Operand[Any]
    dimension: ir.IntegerAttr
    count: ir.IntegerAttr


def _begins(read: vector.TransferReadOp, dimension: int) -> bool:
    """Whether it is of an argument that loops walk along `dimension`, from the first place on."""
    return walks(read, dimension) and not _depends_on_workgroup(read.indices[dimension])


def _is_directly_in(workgroup: ir.Operation, op: ir.OpView) -> bool:
    """Whether no other `scf.forall` is between."""
    around = op.operation.parent
    while around.name != workgroup.name:
        around = around.operation.parent
    return around.operation == workgroup


def _depends_on_workgroup(position: ir.Value) -> bool:
    if isinstance(position.owner, ir.Block):
        return position.owner.owner.name == "scf.forall"
    return any(map(_depends_on_workgroup, position.owner.operands))


def _prefetch_first(reads: list[vector.TransferReadOp], dimension: int, count: int) -> None:
    """Asks for every line that one of `reads` has of each of the first `count`."""
    asked: set[Line] = set()
    known: dict[ir.Value, ir.Value] = {}
    starts = {read: [_start(each, known) for each in read.indices] for read in reads}
    for number in scf.for_(index(0), index(count), index(1)):
        for read, start in starts.items():
            place = [*start]
            place[dimension] = number
            for offsets in line_offsets(read):
                line = line_of(read.base, place, offsets)
                if line not in asked:
                    asked.add(line)
                    prefetch_line(read.base, place, offsets)
        scf.yield_([])


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
        operands = [_start(operand, known) for operand in owner.operands]
        clone = owner.operation.clone()
        for number, operand in enumerate(operands):
            clone.operands[number] = operand
        known.update(zip(owner.results, clone.results, strict=True))
    return known[value]
