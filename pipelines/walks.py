"""Walks through the operations of either MLIR, torch-mlir's or IREE's."""

from collections.abc import Iterator
from typing import Any


def named(root: Any, name: str) -> list[Any]:
    """The operations under the operation `root` that are called `name`, parents first."""
    return [op for op in _walk(root) if op.name == name]


def _walk(root: Any) -> Iterator[Any]:
    for region in root.regions:
        for block in region:
            for op in block:
                yield op.operation
                yield from _walk(op.operation)
