"""What the verifiers of operations on bit planes share."""

from torch_mlir import ir

from llmc.dialects.bit_planes import Planes
from llmc.dialects.blocks import Q8_0
from llmc.dialects.checks import blocks, element_is, filled, multiple, same, static, tensor_of
from llmc.dialects.mismatch import require


def q8_0(name: str, value: ir.Value) -> None:
    """Checks that tensor `name` is of blocks of q8_0, which alone have bit planes."""
    format_ = blocks(name, value)
    require(format_ == Q8_0, f"'{name}' must hold blocks of q8_0, not of {format_.name}")


def check_planes(
    panels: ir.Value, name: str, part: Planes, outputs: int | None = None
) -> tuple[int, int, int]:
    """Checks that tensor `name`, i8 `[N/J, K/32, S]`, holds `part` of N = `outputs` rows.

    Returns N/J, K/32 and J.
    """
    count, per_row, size = tensor_of(panels, name, 3)
    static(name, panels)
    filled(name, panels)
    element_is(name, panels, "i8")
    multiple(name, "cells", size, part.bytes)
    columns = size // part.bytes
    if outputs is not None:
        same(name, "its panels", count, -(-outputs // columns))
    return count, per_row, columns
