"""Finds what is done to the rows that a linear layer reads."""

from collections.abc import Collection
from typing import Any

from torch_mlir import ir

from llmc.dialects import RMSNormOp
from llmc.dialects.index_notation import as_value, size


def norm_before(linear: Any, beside: Collection[str] = ()) -> RMSNormOp | None:
    """The norm that a layer reads, where nothing else does but operations of the names `beside`."""
    x = linear.x
    if isinstance(x.owner, ir.Block) or x.owner.name != "llmc.rms_norm":
        return None
    read_lengths_before(x.owner.operation)
    others = [use.owner for use in x.uses if use.owner != linear.operation]
    return x.owner.opview if all(other.name in beside for other in others) else None


def read_lengths_before(op: ir.Operation, operand: int = 0) -> None:
    """Reads of an operand, as long, what is read of the result alone to know how long it is."""
    for use in list(op.results[0].uses):
        dim = use.owner.operation
        if dim.name == "tensor.dim" and use.operand_number == 0:
            number = dim.operands[1].owner.opview.literal_value
            with ir.InsertionPoint(op):
                dim.results[0].replace_all_uses_with(as_value(size(op.operands[operand], number)))
            dim.erase()
