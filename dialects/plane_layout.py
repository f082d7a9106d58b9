"""Bit planes in linalg: taken apart into integers and scales, and put together from blocks.

Where the bits lie is said by `bit_planes`.
"""

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from llmc.dialects.bit_planes import HIGH, LOW, MIDDLE, OFFSET, BitPlane, Planes
from llmc.dialects.block_bytes import to_bytes
from llmc.dialects.block_layout import BlockParts, read_halves
from llmc.dialects.index_notation import (
    collapse,
    constant,
    expand,
    letters,
    loop_index,
    pointwise,
    reduce,
    sizes,
    slice_of,
)
from llmc.dialects.panel_layout import gather_bytes, halves_of, interleave_bytes, words_of


def take_apart(high: ir.Value, low: ir.Value | None) -> BlockParts:
    """The parts `[..., K/32, J]` of the blocks in panels; without `low` its bits are `MIDDLE`."""
    columns = high.type.shape[-1] // HIGH.bytes
    planes = [
        _bits(words_of(panels, columns, start, plane.bytes), plane)
        for panels, part in ((high, HIGH), (low, LOW))
        if panels is not None
        for start, plane in part.starts
    ]
    return BlockParts(_integers(planes, low is None), halves_of(high, columns, 0), None)


def gather(ids: ir.Value, high: ir.Value, low: ir.Value) -> BlockParts:
    """The parts `[..., K/32]` of the rows `ids [...]` of panels."""
    rows = [
        (gather_bytes(ids, panels, part.bytes, part.before), part)
        for panels, part in ((high, HIGH), (low, LOW))
    ]
    planes = [
        _bits(_slice(stored, start, plane.bytes), plane)
        for stored, part in rows
        for start, plane in part.starts
    ]
    scale = read_halves(_slice(rows[0][0], 0, HIGH.before))
    return BlockParts(_integers(planes, False), scale, None)


def interleave(blocks: ir.Value, part: Planes, columns: int) -> ir.Value:
    """The panels i8 `[N/J, K/32, S]` of a part of q8_0 `blocks [N, K/32]`, J being `columns`."""
    stored = to_bytes(blocks)
    integers = _slice(stored, HIGH.before, stored.type.shape[-1] - HIGH.before)
    fields = [_slice(stored, 0, part.before)] if part.before else []
    fields += [_words(integers, plane) for plane in part.planes]
    type_ = ir.RankedTensorType.get([*stored.type.shape[:-1], part.bytes], stored.type.element_type)
    return interleave_bytes(
        tensor.concat(type_, stored.type.rank - 1, fields), part.before, columns
    )


def _bits(words: ir.Value, plane: BitPlane) -> ir.Value:
    """What a plane's bytes i8 `[..., 4 bits]` have of the integers, i8 `[..., 32]`."""
    lead, i8 = letters(words.type.rank - 1), words.type.element_type

    def part(byte: ir.Value, _: ir.Value) -> ir.Value:
        moved = arith.shrui(byte, _shift(len(lead), plane, i8))
        moved = arith.shli(moved, constant(plane.place, i8))
        return arith.andi(moved, _byte(plane.mask, i8))

    parts = pointwise(f"{lead}b->{lead}hb", part, words, h=8 // plane.bits)
    return collapse(parts, [*[1] * len(lead), 2])


def _words(integers: ir.Value, plane: BitPlane) -> ir.Value:
    """The bytes i8 `[..., 4 bits]` of a plane of `integers [..., 32]`."""
    lead, i8 = letters(integers.type.rank - 1), integers.type.element_type
    *leading, _ = sizes(integers)
    parts = expand(integers, [*([extent] for extent in leading), [8 // plane.bits, plane.bytes]])

    def join(integer: ir.Value, byte: ir.Value) -> ir.Value:
        stored = arith.andi(arith.xori(integer, _byte(OFFSET, i8)), _byte(plane.mask, i8))
        part = arith.shrui(stored, constant(plane.place, i8))
        return arith.ori(byte, arith.shli(part, _shift(len(lead) + 1, plane, i8)))

    return reduce(f"{lead}hb->{lead}b", join, 0, parts)


def _integers(planes: list[ir.Value], is_rough: bool) -> ir.Value:
    """The integers i8 `[..., 32]` of which `planes` are all bits, or all but the low ones."""
    lead, i8 = letters(planes[0].type.rank), planes[0].type.element_type

    def join(*operands: ir.Value) -> ir.Value:
        *bits, _ = operands
        stored = _byte(OFFSET | (MIDDLE if is_rough else 0), i8)
        for each in bits:
            stored = arith.xori(stored, each)
        return stored

    return pointwise(f"{','.join([lead] * len(planes))}->{lead}", join, *planes)


def _shift(dim: int, plane: BitPlane, i8: ir.Type) -> ir.Value:
    """Where in a byte the bits begin that loop number `dim` has come to."""
    return arith.index_cast(
        i8, arith.muli(loop_index(dim), constant(plane.bits, ir.IndexType.get()))
    )


def _slice(stored: ir.Value, start: int, length: int) -> ir.Value:
    *leading, _ = sizes(stored)
    extents = [*leading, length]
    return slice_of(stored, [*[0] * len(leading), start], extents, extents)


def _byte(value: int, i8: ir.Type) -> ir.Value:
    """A byte of bits as the integer of 8 bits that it is."""
    return constant(value - 256 if value > 127 else value, i8)
