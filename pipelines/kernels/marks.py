"""The attributes by which a kernel and what it computes are known, to schedules and to passes."""

from torch_mlir import ir

KIND = "llmc.kernel"
"""The attribute of a function that is a kernel; its value is the kind of kernel."""

STAGE = "llmc.stage"
"""The attribute of an operation of a kernel by which schedules name it."""

RESULT = "llmc.result"
"""The attribute of the operation that computes a kernel's result, whatever its name."""


def name_result(value: ir.Value) -> None:
    """Marks what computes the result of a kernel."""
    value.owner.attributes[RESULT] = ir.UnitAttr.get()
