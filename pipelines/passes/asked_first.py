"""What a workgroup may do before others are done: ask memory for what it will read first."""

from collections.abc import Container

from torch_mlir import ir
from torch_mlir.dialects import func

from llmc.pipelines.kernels.kernel import binding_under
from llmc.pipelines.passes.base import read_from_outside
from llmc.pipelines.walks import walk

PREFETCH = "memref.prefetch"
# What says where, beside arithmetic and loads.
_PLACES = {
    "memref.dim",
    "memref.reinterpret_cast",
    "stream.binding.subspan",
    "stream.dispatch.workgroup.id",
}


def asked_first(
    function: func.FuncOp, settled: Container[ir.Value]
) -> tuple[list[ir.Operation], list[ir.Operation]]:
    """The body of a kernel's `function` in two: what asks memory, with what says where; the rest.

    What says where is in the rest, too. The first reads of no argument that is not `settled`, for
    others may be writing to it: loops that would stay in the rest.
    """
    *body, _ = (op.operation for op in function.entry_block)
    asks, needed = [], set()
    for op in body:
        if _asks_alone(op):
            places = _places(op)
            if all(_is_settled(place, settled) for place in places):
                asks.append(op)
                needed |= {op, *places}
    return [op for op in body if op in needed], [op for op in body if op not in asks]


def _asks_alone(op: ir.Operation) -> bool:
    """Whether `op` is a loop that asks memory for something and does nothing else."""
    names = {inner.name for inner in walk(op) if not inner.name.startswith("arith.")}
    return op.name == "scf.for" and PREFETCH in names <= {PREFETCH, "scf.yield"}


def _places(op: ir.Operation) -> set[ir.Operation]:
    """The operations that `op` depends on."""
    found: set[ir.Operation] = set()
    left = [op]
    while left:
        for value in read_from_outside(left.pop()):
            if not isinstance(value.owner, ir.Block) and value.owner.operation not in found:
                found.add(value.owner.operation)
                left.append(value.owner.operation)
    return found


def _is_settled(place: ir.Operation, settled: Container[ir.Value]) -> bool:
    """Whether `place` is as well found before others are done."""
    if place.name == "memref.load":
        buffer = place.operands[0]
        is_view = not isinstance(buffer.owner, ir.Block) and len(buffer.owner.operands) > 0
        return is_view and binding_under(buffer) in settled
    return place.name.startswith("arith.") or place.name in _PLACES
