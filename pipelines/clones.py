"""Copies of operations that read other values."""

from torch_mlir import ir

from llmc.pipelines.walks import walk


def clone_with(op: ir.Operation, known: dict[ir.Value, ir.Value]) -> None:
    """Clones `op` with what `known` says in the place of its operands, and adds its results."""
    clone = op.clone()
    for inner in (clone.operation, *walk(clone.operation)):
        for number, operand in enumerate(inner.operands):
            inner.operands[number] = known.get(operand, operand)
    known.update(zip(op.results, clone.results, strict=True))
