"""Bit planes in linalg: taken apart into integers and scales, and put together from blocks.

Where the bits lie is said by `block_parts`.
"""

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from llmc.dialects.block_bytes import to_bytes
from llmc.dialects.block_layout import BlockParts, give, read_halves, take, unpack, values
from llmc.dialects.block_parts import HIGH, LOW, MIDDLE, OFFSET, Planes
from llmc.dialects.blocks import Q8_0
from llmc.dialects.index_notation import byte, letters, pointwise, slice_of_rows
from llmc.dialects.panel_layout import gather_bytes, halves_of, interleave_bytes, words_of


def take_apart(high: ir.Value, low: ir.Value | None) -> BlockParts:
    """The parts `[..., K/32, J]` of the blocks in panels; without `low` its bits are `MIDDLE`."""
    columns = high.type.shape[-1] // HIGH.bytes
    planes = [
        give(words_of(panels, columns, start, plane.bytes_of(Q8_0.values)), plane)
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
        give(slice_of_rows(stored, start, plane.bytes_of(Q8_0.values)), plane)
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
    fields += [take(_as_stored(integers), plane) for plane in part.planes]
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


def _as_stored(integers: ir.Value) -> ir.Value:
    lead = letters(integers.type.rank)
    return pointwise(f"{lead}->{lead}", lambda each, _: stored(each), integers)


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
