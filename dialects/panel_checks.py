"""What the verifiers of operations on panels of blocks share."""

from torch_mlir import ir

from llmc.dialects.blocks import FORMATS
from llmc.dialects.checks import element_is, filled, multiple, require, same, static, tensor_of


def check_block_panels(
    panels: ir.Value, name: str, format_: ir.StringAttr, outputs: int | None = None, rank: int = 3
) -> int:
    """Checks that tensor `name`, i8 `[..., N/J, K/G, S]`, holds N = `outputs` rows; returns K/G."""
    listed = ", ".join(FORMATS)
    require(format_.value in FORMATS, f"attribute 'format' must be one of {listed}, not {format_}")
    *_, count, blocks, size = tensor_of(panels, name, rank)
    static(name, panels)
    filled(name, panels)
    element_is(name, panels, "i8")
    bytes_ = FORMATS[format_.value].bytes
    multiple(name, "cells", size, bytes_)
    if outputs is not None:
        same(name, "its panels", count, -(-outputs // (size // bytes_)))
    return blocks
