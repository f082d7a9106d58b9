"""Cells of a KV cache in linalg: taken apart into the blocks of each column, and put together.

Where a cell's bits lie is said by `cache_cells`.
"""

from functools import reduce
from math import prod

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from llmc.dialects.block_bytes import to_blocks, to_bytes
from llmc.dialects.block_panels import WORD
from llmc.dialects.block_types import block_type
from llmc.dialects.blocks import Q8_0
from llmc.dialects.cache_cells import COLUMNS, PANEL, PLANES, CellFormat, Plane
from llmc.dialects.index_notation import (
    Size,
    byte,
    collapse,
    expand,
    index,
    loop_index,
    pointwise,
    sizes,
    slice_of_rows,
)

_COLUMN = "bgpck"


def take_apart(cells: ir.Value) -> ir.Value:
    """The blocks `[B, G, 512 P, K]` of all columns of `cells [B, G, P, K]`."""
    format_, stored = cells.type.element_type.format, to_bytes(cells)
    scales = _turned("bgpkcs->bgpcks", _split(stored, 0, [COLUMNS, 2]))
    bits = [_unpacked(_columns(stored, format_, plane), plane) for plane in PLANES]
    rows = _joined([scales, reduce(_either, bits)])
    return to_blocks(collapse(rows, [1, 1, 2, 1, 1]), block_type(Q8_0))


def put_together(blocks: ir.Value, element: ir.Type) -> ir.Value:
    """The cells `[B, G, P, K]`, of type `element`, of the blocks `[B, G, 512 P, K]`."""
    format_, stored = element.format, to_bytes(blocks)
    batch, heads, columns, count, _ = sizes(stored)
    cells = columns // COLUMNS if isinstance(columns, int) else arith.divui(columns, index(COLUMNS))
    rows = expand(stored, [[batch], [heads], [cells, COLUMNS], [count], [Q8_0.bytes]])
    scales, integers = (slice_of_rows(rows, *Q8_0.bytes_of(field)) for field in ("scale", "packed"))
    planes = (_words(_packed(integers, plane), format_, plane) for plane in PLANES)
    fields = [collapse(_turned("bgpcks->bgpkcs", scales), [1, 1, 1, 1, 2]), *planes]
    return to_blocks(_joined(fields), element)


def _columns(stored: ir.Value, format_: CellFormat, plane: Plane) -> ir.Value:
    """The bytes of a plane, column by column: `[B, G, P, 512, K, _]` of `[B, G, P, K, _]`."""
    words = _split(stored, format_.begin(plane), list(format_.words(plane)))
    if format_.sums_channels:
        return collapse(_turned("bgpknwci->bgpnckwi", words), [1, 1, 1, 2, 1, 2])
    return collapse(_turned("bgpknwei->bgpnwike", words), [1, 1, 1, 3, 1, 1])


def _words(bits: ir.Value, format_: CellFormat, plane: Plane) -> ir.Value:
    """Bytes of a plane as they lie in cells, `[B, G, P, K, _]`, of those of columns."""
    *cells, _, count, channels = sizes(bits)
    panels, words, _, _ = format_.words(plane)
    extents: list[list[Size]] = [[extent] for extent in cells]
    if format_.sums_channels:
        split = expand(bits, [*extents, [panels, PANEL], [count], [words, WORD]])
        turned = _turned("bgpnckwi->bgpknwci", split)
    else:
        split = expand(bits, [*extents, [panels, words, WORD], [count], [channels]])
        turned = _turned("bgpnwike->bgpknwei", split)
    return collapse(turned, [1, 1, 1, 1, 4])


def _unpacked(packed: ir.Value, plane: Plane) -> ir.Value:
    """What the bytes of a plane give to the integers `[B, G, P, 512, K, 32]`."""

    def bits(stored: ir.Value, _: ir.Value) -> ir.Value:
        shift = arith.muli(loop_index(len(_COLUMN)), index(plane.width))
        own = arith.shrui(stored, arith.index_cast(stored.type, shift))
        return arith.shli(arith.andi(own, byte(plane.mask)), byte(plane.first))

    apart = pointwise(f"{_COLUMN}e->{_COLUMN}se", bits, packed, s=len(plane.starts))
    return collapse(apart, [1, 1, 1, 1, 1, 2])


def _packed(integers: ir.Value, plane: Plane) -> ir.Value:
    """The bytes of a plane, of the integers of the columns `[B, G, P, 512, K, 32]`."""
    parts = (slice_of_rows(integers, start, plane.channels) for start in plane.starts)
    return reduce(_either, (_own_bits(x, plane, number) for number, x in enumerate(parts)))


def _own_bits(integers: ir.Value, plane: Plane, number: int) -> ir.Value:
    """The bits of `integers` that are of a plane, where the sharer of this number has them."""

    def bits(stored: ir.Value, _: ir.Value) -> ir.Value:
        own = arith.andi(arith.shrui(stored, byte(plane.first)), byte(plane.mask))
        return arith.shli(own, byte(plane.width * number))

    return pointwise(f"{_COLUMN}e->{_COLUMN}e", bits, integers)


def _either(left: ir.Value, right: ir.Value) -> ir.Value:
    """The bits that are in either."""
    column = f"{_COLUMN}e"
    return pointwise(f"{column},{column}->{column}", lambda a, b, _: arith.ori(a, b), left, right)


def _split(stored: ir.Value, start: int, shape: list[int]) -> ir.Value:
    """The bytes of a last dimension from `start` on, as `shape`."""
    part = slice_of_rows(stored, start, prod(shape))
    *leading, _ = sizes(part)
    return expand(part, [*([extent] for extent in leading), list(shape)])


def _turned(notation: str, x: ir.Value) -> ir.Value:
    return pointwise(notation, lambda each, _: each, x)


def _joined(fields: list[ir.Value]) -> ir.Value:
    """Bytes that follow each other in the last dimension."""
    *leading, _ = fields[0].type.shape
    shape = [*leading, sum(field.type.shape[-1] for field in fields)]
    type_ = ir.RankedTensorType.get(shape, fields[0].type.element_type)
    return tensor.concat(type_, len(leading), fields)
