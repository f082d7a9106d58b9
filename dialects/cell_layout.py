"""Cells of a KV cache in linalg: taken apart into the blocks of each column, and put together.

Where a cell's bytes lie is said by `cache_cells`.
"""

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from llmc.dialects.block_bytes import to_blocks, to_bytes
from llmc.dialects.block_panels import WORD
from llmc.dialects.block_types import block_type
from llmc.dialects.blocks import Q8_0
from llmc.dialects.cache_cells import COLUMNS, INTEGERS
from llmc.dialects.index_notation import Size, collapse, expand, index, pointwise, sizes, slice_of


def take_apart(cells: ir.Value) -> ir.Value:
    """The blocks `[B, G, 16 P, K]` of all columns of `cells [B, G, P, K]`."""
    format_, stored = cells.type.element_type.format, to_bytes(cells)
    scales = _split(stored, 0, INTEGERS, [COLUMNS, 2])
    words = [format_.words, format_.lanes, WORD]
    integers = _split(stored, INTEGERS, format_.bytes - INTEGERS, words)
    notation, groups = (
        ("bgpkwci->bgpckwi", [1, 1, 1, 1, 1, 2])
        if format_.sums_channels
        else ("bgpkwei->bgpwike", [1, 1, 1, 2, 1, 1])
    )
    fields = [_turned("bgpkcs->bgpcks", scales), collapse(_turned(notation, integers), groups)]
    rows = _joined(fields)
    return to_blocks(collapse(rows, [1, 1, 2, 1, 1]), block_type(Q8_0))


def put_together(blocks: ir.Value, element: ir.Type) -> ir.Value:
    """The cells `[B, G, P, K]`, of type `element`, of the blocks `[B, G, 16 P, K]`."""
    format_, stored = element.format, to_bytes(blocks)
    batch, heads, columns, count, _ = sizes(stored)
    panels = (
        columns // COLUMNS if isinstance(columns, int) else arith.divui(columns, index(COLUMNS))
    )
    rows = expand(stored, [[batch], [heads], [panels, COLUMNS], [count], [Q8_0.bytes]])
    scale, packed = (Q8_0.bytes_of(field) for field in ("scale", "packed"))
    scales, words = _split(rows, *scale, [scale[1]]), [format_.words, WORD]
    if format_.sums_channels:
        integers = _turned("bgpckwi->bgpkwci", _split(rows, *packed, words))
    else:
        extents = [[batch], [heads], [panels], words, [count], [Q8_0.values]]
        integers = _turned("bgpwike->bgpkwei", expand(_part(rows, *packed), extents))
    fields = [
        collapse(_turned("bgpcks->bgpkcs", scales), [1, 1, 1, 1, 2]),
        collapse(integers, [1, 1, 1, 1, 3]),
    ]
    return to_blocks(_joined(fields), element)


def _split(stored: ir.Value, start: int, length: int, shape: list[int]) -> ir.Value:
    """The bytes of a last dimension from `start` on, `length` of them, as `shape`."""
    part = _part(stored, start, length)
    *leading, _ = sizes(part)
    return expand(part, [*([extent] for extent in leading), list(shape)])


def _part(stored: ir.Value, start: int, length: int) -> ir.Value:
    *leading, _ = sizes(stored)
    extents: list[Size] = [*leading, length]
    return slice_of(stored, [*[0] * len(leading), start], extents, extents)


def _turned(notation: str, x: ir.Value) -> ir.Value:
    return pointwise(notation, lambda byte, _: byte, x)


def _joined(fields: list[ir.Value]) -> ir.Value:
    """Bytes that follow each other in the last dimension."""
    *leading, _ = fields[0].type.shape
    shape = [*leading, sum(field.type.shape[-1] for field in fields)]
    type_ = ir.RankedTensorType.get(shape, fields[0].type.element_type)
    return tensor.concat(type_, len(leading), fields)
