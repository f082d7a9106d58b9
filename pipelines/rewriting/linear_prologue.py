"""Finds what is done to the rows that a linear layer reads."""

from collections.abc import Collection
from typing import Any

from torch_mlir import ir

from llmc.dialects import RMSNormOp
from llmc.dialects.index_notation import as_value, size
from llmc.pipelines.rewriting.generics import measured
from llmc.pipelines.rewriting.operations import made_by


def norm_before(linear: Any, beside: Collection[str] = ()) -> RMSNormOp | None:
    """The norm that a layer reads, where nothing else does but operations of the names `beside`."""
    norm = made_by(linear.x, RMSNormOp.OPERATION_NAME)
    others = [use.owner for use in linear.x.uses if use.owner != linear.operation]
    return norm.opview if norm and all(other.name in beside for other in others) else None


def read_lengths_before_norm(linear: Any) -> None:
    """Reads how long a layer's result is of what the layer reads, or the norm before it."""
    read_lengths_before(linear.operation)
    if norm := made_by(linear.x, RMSNormOp.OPERATION_NAME):
        read_lengths_before(norm)


def read_lengths_before(op: ir.Operation, operand: int = 0) -> None:
    """Reads of an operand, as long, what is read of the result alone to know how long it is.

    But for the last dimension, which may be another.
    """
    for use in list(op.results[0].uses):
        dim = use.owner.operation
        of_result = measured(dim)
        if of_result and of_result[1] < op.results[0].type.rank - 1:
            with ir.InsertionPoint(op), dim.location:
                extent = as_value(size(op.operands[operand], of_result[1]))
            dim.results[0].replace_all_uses_with(extent)
            dim.erase()
