"""What the verifiers of operations on panels of blocks share."""

from torch_mlir import ir

from llmc.dialects.blocks import FORMATS
from llmc.dialects.checks import (
    element_is,
    filled,
    integers,
    multiple,
    require,
    same,
    shaped,
    static,
    tensor_of,
)


def check_block_panels(
    panels: ir.Value, name: str, format_: ir.StringAttr, outputs: int | None = None, rank: int = 3
) -> int:
    """Checks that tensor `name`, i8 `[..., N/J, K/G, S]`, holds N = `outputs` rows; returns K/G."""
    listed = ", ".join(FORMATS)
    require(format_.value in FORMATS, f"attribute 'format' must be one of {listed}, not {format_}")
    return check_panels(panels, name, FORMATS[format_.value].bytes, outputs, rank)


def check_panels(
    panels: ir.Value, name: str, size: int, outputs: int | None = None, rank: int = 3
) -> int:
    """As `check_block_panels`, of panels that have `size` bytes of each block."""
    *_, count, blocks, cell = tensor_of(panels, name, rank)
    static(name, panels)
    filled(name, panels)
    element_is(name, panels, "i8")
    multiple(name, "cells", cell, size)
    if outputs is not None:
        same(name, "its panels", count, -(-outputs // (cell // size)))
    return blocks


def check_lookup(ids: ir.Value, out: ir.Value) -> int:
    """Checks that `out [..., K]` has room for rows of f32 that `ids [...]` name; returns K."""
    shape = tensor_of(ids, "ids", at_least=1)
    integers("ids", ids)
    filled("ids", ids)
    width = tensor_of(out, "out", len(shape) + 1)[-1]
    static("out", out, len(shape))
    shaped("out", out, [*shape, width])
    element_is("out", out, "f32")
    return width


def check_rows(x: ir.Value, out: ir.Value) -> tuple[int | None, int]:
    """Checks that `x [..., K]` and `out [..., N]` are as many rows of f32; returns K and N."""
    *leading, inputs = tensor_of(x, "x", at_least=2)
    element_is("x", x, "f32")
    filled("x", x)
    outputs = tensor_of(out, "out", len(leading) + 1)[-1]
    static("out", out, len(leading))
    shaped("out", out, [*leading, outputs])
    element_is("out", out, "f32")
    return inputs, outputs
