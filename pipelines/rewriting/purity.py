"""Which operations only compute: they may be moved, repeated and left out."""

from torch_mlir import ir

from llmc.pipelines.rewriting.operations import is_used
from llmc.pipelines.walks import walk

_DIALECTS = ("arith", "complex", "linalg", "llmc", "math", "tensor")
_EXCEPTIONS = ("llmc.cache_allocate",)


def is_pure(op: ir.Operation) -> bool:
    """Whether `op`, and what it holds, has no effect but its results. Unsure means no."""
    dialect, _, _ = op.name.partition(".")
    return (
        dialect in _DIALECTS
        and op.name not in _EXCEPTIONS
        and not any(isinstance(operand.type, ir.MemRefType) for operand in op.operands)
        and all(is_pure(inner) for inner in walk(op))
    )


def is_needed(op: ir.Operation) -> bool:
    """Whether anything depends on what `op` gives, but what computes and is read by nobody."""
    readers = (
        use.owner.operation
        for each in _readers_first(op, set())
        for result in each.results
        for use in result.uses
    )
    return any(not is_pure(reader) for reader in readers)


def erase_unread(op: ir.Operation) -> None:
    """Erases what only computes with what `op` gives and is read by nobody, and so `op` itself."""
    for each in _readers_first(op, set()):
        if not is_used(each):
            each.erase()


def _readers_first(op: ir.Operation, seen: set[ir.Operation]) -> list[ir.Operation]:
    """What only computes with what `op` gives, near or far, each before what it reads; then `op`.

    Without what is in `seen`, where all of it is then.
    """
    seen.add(op)
    found = []
    for reader in (use.owner.operation for result in op.results for use in result.uses):
        if reader not in seen and is_pure(reader):
            found += _readers_first(reader, seen)
    return [*found, op]
