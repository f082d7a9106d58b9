"""What the verifiers of operations on bit planes share."""

from torch_mlir import ir

from llmc.dialects.block_parts import HIGH, LOW
from llmc.dialects.blocks import Q8_0
from llmc.dialects.checks import blocks, element_is, shaped, static
from llmc.dialects.mismatch import require
from llmc.dialects.panel_checks import check_panels


def q8_0(name: str, value: ir.Value) -> None:
    """Checks that tensor `name` is of blocks of q8_0, which alone have bit planes."""
    format_ = blocks(name, value)
    require(format_ == Q8_0, f"'{name}' must hold blocks of q8_0, not of {format_.name}")


def check_planes(high: ir.Value, low: ir.Value | None, outputs: int | None = None) -> int:
    """Checks that `high` and `low`, where there is one, hold N = `outputs` rows; returns K/32.

    They are i8 `[N/J, K/32, 26 J]` and `[N/J, K/32, 8 J]`.
    """
    per_row = check_panels(high, "high", HIGH.bytes, outputs)
    if low is not None:
        panels, _, size = high.type.shape
        shaped("low", low, [panels, per_row, size // HIGH.bytes * LOW.bytes])
        static("low", low)
        element_is("low", low, "i8")
    return per_row
