"""What is asked of operations and values: who makes them, who reads them, what holds them."""

from collections.abc import Iterator

from torch_mlir import ir
from torch_mlir.dialects import linalg

from llmc.pipelines.walks import walk


def made_by(value: ir.Value, *names: str) -> ir.Operation | None:
    """The operation that makes `value`, if it bears one of `names`."""
    owner = value.owner
    is_it = not isinstance(owner, ir.Block) and owner.operation.name in names
    return owner.operation if is_it else None


def keeps_order(transposition: linalg.TransposeOp) -> bool:
    """Whether the elements follow each other as before: only dimensions of extent 1 are moved."""
    shape = transposition.input.type.shape
    long = [dim for dim in transposition.permutation if shape[dim] != 1]
    return long == sorted(long)


def read_from_outside(op: ir.Operation) -> list[ir.Value]:
    """What `op`, and what it holds, reads from outside, each once, in the order of reading."""
    within = [op, *walk(op)]
    blocks = [block for inner in within for region in inner.regions for block in region]
    own = {argument for block in blocks for argument in block.arguments}
    own |= {result for inner in within for result in inner.results}
    reads = (value for inner in within for value in inner.operands)
    return list(dict.fromkeys(value for value in reads if value not in own))


def needed_for(wanted: list[ir.Value], ops: list[ir.Operation]) -> list[ir.Operation]:
    """Those of `ops`, which follow each other, that compute `wanted`, in order."""
    needed, found = set(wanted), []
    for op in reversed(ops):
        if needed.intersection(op.results):
            found.append(op)
            needed.update(read_from_outside(op))
    return found[::-1]


def upwards(op: ir.Operation) -> Iterator[ir.Operation]:
    """The operation and those that hold it, the innermost first."""
    yield op
    if op.attached and op.parent is not None:
        yield from upwards(op.parent.operation)


def ancestor_in(block: ir.Block, op: ir.Operation) -> ir.Operation | None:
    """The operation of `block` that is `op` or holds it; None where there is none."""
    while op.parent is not None:
        if op.block == block:
            return op
        op = op.parent.operation
    return None


def is_read(value: ir.Value) -> bool:
    """Whether any operation has `value` as an operand."""
    return any(True for _ in value.uses)


def is_used(op: ir.Operation) -> bool:
    """Whether anything reads a result of `op`."""
    return any(map(is_read, op.results))
