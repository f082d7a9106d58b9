"""Panels in linalg: cells put together from blocks, and taken apart into integers and scales.

Where the bytes lie is said by `block_panels`.
"""

from math import prod

from torch_mlir import ir
from torch_mlir.dialects import arith, linalg, tensor
from torch_mlir.extras import types as T

from llmc.dialects.block_bytes import to_bytes
from llmc.dialects.block_layout import BlockParts, read_halves, read_integers, unpack_bytes
from llmc.dialects.block_panels import WORD, header
from llmc.dialects.blocks import BlockFormat
from llmc.dialects.index_notation import (
    collapse,
    constant,
    expand,
    index,
    letters,
    loop_index,
    pointwise,
    sizes,
    slice_of,
)


def interleave(blocks: ir.Value, columns: int) -> ir.Value:
    """The panels i8 `[..., N/J, K/G, S]` of `blocks [..., N, K/G]`, J being `columns`."""
    return interleave_bytes(to_bytes(blocks), header(blocks.type.element_type.format), columns)


def interleave_bytes(stored: ir.Value, before: int, columns: int) -> ir.Value:
    """The panels i8 `[..., N/J, K/G, S]` of the bytes of blocks, i8 `[..., N, K/G, bytes]`.

    The first `before` of a block are 2-byte numbers, the others words of `WORD`.
    """
    size = stored.type.shape[-1]
    fields = [(0, before, 2)] * (before > 0) + [(before, size - before, WORD)]
    cells = [_interleaved(stored, *field, columns) for field in fields]
    shape = [*cells[0].type.shape[:-1], columns * size]
    type_ = ir.RankedTensorType.get(shape, stored.type.element_type)
    return tensor.concat(type_, len(shape) - 1, cells)


def take_apart(panels: ir.Value, format_: BlockFormat) -> BlockParts:
    """The parts `[..., K/G, J]` of the blocks in panels i8 `[..., K/G, S]`."""
    columns = panels.type.shape[-1] // format_.bytes

    def halves(name: str) -> ir.Value:
        return halves_of(panels, columns, format_.bytes_of(name)[0])

    return BlockParts(
        read_integers(words_of(panels, columns, *format_.bytes_of("packed")), format_),
        halves("scale"),
        halves("minimum") if format_.has_minimum else None,
    )


def halves_of(panels: ir.Value, columns: int, start: int) -> ir.Value:
    """The 2-byte numbers that begin `start` bytes into each block, as f32 `[..., K/G, J]`."""
    return read_halves(_field(panels, columns, start, [columns, 2]))


def words_of(panels: ir.Value, columns: int, start: int, length: int) -> ir.Value:
    """`length` bytes of each block that begin `start` bytes into it, i8 `[..., K/G, J, length]`."""
    parts = _field(panels, columns, start, [length // WORD, columns, WORD])
    lead = letters(parts.type.rank - 3)
    rows = pointwise(f"{lead}gji->{lead}jgi", lambda byte, _: byte, parts)
    return collapse(rows, [*[1] * len(lead), 1, 2])


def _field(panels: ir.Value, columns: int, start: int, shape: list[int]) -> ir.Value:
    """The bytes that begin `start` bytes into each block, of all rows of a panel, in `shape`."""
    *leading, _ = sizes(panels)
    extents = [*leading, prod(shape)]
    field = slice_of(panels, [*[0] * len(leading), columns * start], extents, extents)
    return expand(field, [*([extent] for extent in leading), shape])


def gather(ids: ir.Value, panels: ir.Value, format_: BlockFormat) -> BlockParts:
    """The parts `[..., K/G]` of the rows `ids [...]` of panels i8 `[N/J, K/G, S]`."""
    return unpack_bytes(gather_bytes(ids, panels, format_.bytes, header(format_)), format_)


def gather_bytes(ids: ir.Value, panels: ir.Value, length: int, before: int) -> ir.Value:
    """The bytes i8 `[..., K/G, length]` of the blocks of the rows `ids [...]` of panels.

    The first `before` of a block are 2-byte numbers.
    """
    _, blocks, size = panels.type.shape
    columns, rank = size // length, ids.type.rank

    def byte(which: ir.Value, _: ir.Value) -> ir.Value:
        row = arith.index_cast(T.index(), which)
        panel, column = arith.divui(row, index(columns)), arith.remui(row, index(columns))
        place = _place(column, loop_index(rank + 1), columns, before)
        return tensor.extract(panels, [panel, loop_index(rank), place])

    lead, i8 = letters(rank), panels.type.element_type
    return pointwise(f"{lead}->{lead}ki", byte, ids, element=i8, k=blocks, i=length)


def _place(column: ir.Value, byte: ir.Value, columns: int, header: int) -> ir.Value:
    """Where in a cell number `byte` of the block of row `column` lies."""
    before = index(header)
    is_header = arith.cmpi(arith.CmpIPredicate.ult, byte, before)
    start = arith.select(is_header, index(0), before)
    width = arith.select(is_header, index(2), index(WORD))
    within = arith.subi(byte, start)
    part = arith.addi(arith.muli(arith.divui(within, width), index(columns)), column)
    offset = arith.addi(arith.muli(part, width), arith.remui(within, width))
    return arith.addi(arith.muli(start, index(columns)), offset)


def _interleaved(stored: ir.Value, start: int, length: int, width: int, columns: int) -> ir.Value:
    """Bytes of each block from `start` on, `[..., N/J, K/G, J * length]`, in parts of `width`."""
    *leading, rows, count, _ = stored.type.shape
    extents, lead = [*leading, rows, count, length], len(leading)
    field = slice_of(stored, [*[0] * (lead + 2), start], extents, extents)
    parts = expand(field, [*([extent] for extent in extents[:-1]), [length // width, width]])
    panels, element = -(-rows // columns), stored.type.element_type
    packed = linalg.pack(
        parts,
        tensor.empty([*leading, panels, count, length // width, 1, columns, width], element),
        [lead, lead + 3],
        [columns, width],
        padding_value=constant(0, element) if rows % columns else None,
        outer_dims_perm=list(range(lead + 4)),
    )
    return collapse(packed, [*[1] * lead, 1, 1, 4])
