"""Bit planes in linalg: taken apart into integers and scales, and put together from blocks.

Where the bits lie is said by `bit_planes`.
"""

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor
from torch_mlir.extras import types as T

from llmc.dialects.bit_planes import HIGH, LOW, MIDDLE, OFFSET, BitPlane, Planes
from llmc.dialects.block_bytes import to_bytes
from llmc.dialects.block_layout import BlockParts, read_halves, unpack, values
from llmc.dialects.index_notation import (
    byte,
    collapse,
    constant,
    expand,
    letters,
    loop_index,
    pointwise,
    reduce,
    sizes,
    slice_of_rows,
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
    unread = MIDDLE if low is None else 0
    return BlockParts(_integers(planes, unread), halves_of(high, columns, 0), None)


def gather(ids: ir.Value, high: ir.Value, low: ir.Value) -> BlockParts:
    """The parts `[..., K/32]` of the rows `ids [...]` of panels."""
    rows = [
        (gather_bytes(ids, panels, part.bytes, part.before), part)
        for panels, part in ((high, HIGH), (low, LOW))
    ]
    planes = [
        _bits(slice_of_rows(stored, start, plane.bytes), plane)
        for stored, part in rows
        for start, plane in part.starts
    ]
    scale = read_halves(slice_of_rows(rows[0][0], 0, HIGH.before))
    return BlockParts(_integers(planes), scale, None)


def interleave(blocks: ir.Value, part: Planes, columns: int) -> ir.Value:
    """The panels i8 `[N/J, K/32, S]` of a part of q8_0 `blocks [N, K/32]`, J being `columns`."""
    whole = to_bytes(blocks)
    integers = slice_of_rows(whole, HIGH.before, whole.type.shape[-1] - HIGH.before)
    fields = [slice_of_rows(whole, 0, part.before)] if part.before else []
    fields += [_words(integers, plane) for plane in part.planes]
    type_ = ir.RankedTensorType.get([*whole.type.shape[:-1], part.bytes], whole.type.element_type)
    return interleave_bytes(tensor.concat(type_, whole.type.rank - 1, fields), part.before, columns)


def left_out(blocks: ir.Value) -> ir.Value:
    """What the high bits leave out of the numbers of q8_0 `blocks [N, K/32]`, f32 `[N, K]`."""
    parts = unpack(blocks)

    def low_bits(integer: ir.Value, _: ir.Value) -> ir.Value:
        return arith.subi(arith.andi(stored(integer), byte(LOW.mask)), byte(MIDDLE))

    low = pointwise("nbv->nbv", low_bits, parts.integers)
    return values(BlockParts(low, parts.scale, None))


def stored(integer: ir.Value) -> ir.Value:
    """An integer i8 as it is stored, `OFFSET` more, which is to turn its highest bit."""
    return arith.xori(integer, byte(OFFSET))


def _bits(words: ir.Value, plane: BitPlane) -> ir.Value:
    """The bits of stored integers i8 `[..., 32]` that are in a plane i8 `[..., bytes]`."""
    lead, i8 = letters(words.type.rank - 1), words.type.element_type

    def part(packed: ir.Value, _: ir.Value) -> ir.Value:
        moved = arith.shrui(packed, _shift(len(lead), plane, i8))
        moved = arith.shli(moved, constant(plane.place, i8))
        return arith.andi(moved, byte(plane.mask))

    parts = pointwise(f"{lead}b->{lead}hb", part, words, h=plane.sharers)
    return collapse(parts, [*[1] * len(lead), 2])


def _words(integers: ir.Value, plane: BitPlane) -> ir.Value:
    """The plane i8 `[..., bytes]` of integers i8 `[..., 32]`."""
    lead, i8 = letters(integers.type.rank - 1), integers.type.element_type
    *leading, _ = sizes(integers)
    parts = expand(integers, [*([extent] for extent in leading), [plane.sharers, plane.bytes]])

    def join(integer: ir.Value, packed: ir.Value) -> ir.Value:
        bits = arith.andi(stored(integer), byte(plane.mask))
        part = arith.shrui(bits, constant(plane.place, i8))
        return arith.ori(packed, arith.shli(part, _shift(len(lead) + 1, plane, i8)))

    return reduce(f"{lead}hb->{lead}b", join, 0, parts)


def _integers(planes: list[ir.Value], unread: int = 0) -> ir.Value:
    """The integers i8 `[..., 32]` whose stored bits are in `planes`, and otherwise in `unread`."""
    lead = letters(planes[0].type.rank)

    def join(*operands: ir.Value) -> ir.Value:
        *bits, _ = operands
        integer = byte(OFFSET | unread)
        for each in bits:
            integer = arith.xori(integer, each)
        return integer

    return pointwise(f"{','.join([lead] * len(planes))}->{lead}", join, *planes)


def _shift(dim: int, plane: BitPlane, i8: ir.Type) -> ir.Value:
    """Where in a byte the bits begin that loop number `dim` has come to."""
    return arith.index_cast(i8, arith.muli(loop_index(dim), constant(plane.bits, T.index())))
