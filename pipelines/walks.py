"""Walks through the operations of either MLIR, torch-mlir's or IREE's."""

from collections.abc import Iterator

from torch_mlir import ir


def walk(root: ir.Operation) -> Iterator[ir.Operation]:
    """The operations under `root`, parents first. Erase only what is not yet to come."""
    for region in root.regions:
        for block in region:
            for op in list(block):
                yield op.operation
                yield from walk(op.operation)


def find(root: ir.Operation, *names: str) -> list[ir.Operation]:
    """The operations under `root` that bear one of `names`, parents first."""
    return [op for op in walk(root) if op.name in names]
