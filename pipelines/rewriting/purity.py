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


def erase_unread(op: ir.Operation) -> None:
    """Erases `op` if nothing reads it but what only computes and is read by nobody, with that."""
    for reader in dict.fromkeys(use.owner.operation for each in op.results for use in each.uses):
        if is_pure(reader):
            erase_unread(reader)
    if not is_used(op):
        op.erase()
