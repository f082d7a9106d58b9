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
    found: list[ir.Operation] = []
    _add_named(root, frozenset(names), found)
    return found


def _add_named(root: ir.Operation, names: frozenset[str], found: list[ir.Operation]) -> None:
    """To a list, for most of what passes go through is not theirs, and a generator takes longer."""
    for region in root.regions:
        for block in region:
            for op in block:
                operation = op.operation
                if operation.name in names:
                    found.append(operation)
                _add_named(operation, names, found)
