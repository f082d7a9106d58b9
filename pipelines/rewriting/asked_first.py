"""What a workgroup may do before others are done: ask memory for what it will read first."""

from collections.abc import Container

from torch_mlir import ir
from torch_mlir.dialects import func

from llmc.pipelines.rewriting.operations import made_by, needed_for, read_from_outside
from llmc.pipelines.rewriting.purity import is_pure
from llmc.pipelines.walks import walk

_PREFETCH = "memref.prefetch"
_VIEW = "stream.binding.subspan"
# What says where, beside loads and what only computes.
_PLACES = (_VIEW, "memref.dim", "memref.reinterpret_cast", "stream.dispatch.workgroup.id")


def asked_first(
    function: func.FuncOp, settled: Container[ir.Value]
) -> tuple[list[ir.Operation], list[ir.Operation]]:
    """The body of a kernel's `function` in two: what asks memory, with what says where; the rest.

    What says where is in the rest, too. The first reads of no argument that is not `settled`, for
    others may be writing to it: loops that would stay in the rest.
    """
    *body, _ = (op.operation for op in function.entry_block)
    asks: list[ir.Operation] = []
    needed: set[ir.Operation] = set()
    for op in body:
        if _asks_alone(op):
            places = needed_for(read_from_outside(op), body)
            if all(_is_settled(place, settled) for place in places):
                asks.append(op)
                needed |= {op, *places}
    return [op for op in body if op in needed], [op for op in body if op not in asks]


def _asks_alone(op: ir.Operation) -> bool:
    """Whether `op` is a loop that asks memory for something and does nothing else."""
    names = {inner.name for inner in walk(op) if not is_pure(inner)}
    return op.name == "scf.for" and _PREFETCH in names <= {_PREFETCH, "scf.yield"}


def _is_settled(place: ir.Operation, settled: Container[ir.Value]) -> bool:
    """Whether `place` is as well found before others are done."""
    if place.name == "memref.load":
        view = made_by(place.operands[0], _VIEW)
        return view is not None and view.operands[0] in settled
    return is_pure(place) or place.name in _PLACES
