"""Blocks in linalg: taken apart into integers and scales, and put together from them.

Where a block's bits lie is said once, by `BlockFormat`.
"""

from dataclasses import dataclass
from functools import reduce as fold

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor
from torch_mlir.extras import types as T

from llmc.dialects.bit_plane import BitPlane
from llmc.dialects.block_bytes import to_blocks, to_bytes
from llmc.dialects.block_types import block_type
from llmc.dialects.blocks import BlockFormat
from llmc.dialects.index_notation import (
    byte,
    collapse,
    constant,
    expand,
    index,
    insert,
    letters,
    loop_index,
    pointwise,
    reduce,
    sizes,
    slice_of,
    slice_of_rows,
)


@dataclass(frozen=True)
class BlockParts:
    """Blocks `[...]` taken apart: integers i8 `[..., G]`, scale and minimum f32 `[...]`.

    The integers are those of which the scale is a factor; a format without minimum has none.
    """

    integers: ir.Value
    scale: ir.Value
    minimum: ir.Value | None


def unpack(x: ir.Value) -> BlockParts:
    """The parts of the blocks `x [...]`."""
    return unpack_bytes(to_bytes(x), x.type.element_type.format)


def unpack_bytes(stored: ir.Value, format_: BlockFormat) -> BlockParts:
    """The parts of blocks of `format_` that are given by their bytes, i8 `[..., bytes]`."""
    return BlockParts(
        read_integers(_field(stored, format_, "packed"), format_),
        read_halves(_field(stored, format_, "scale")),
        read_halves(_field(stored, format_, "minimum")) if format_.has_minimum else None,
    )


def pack(parts: BlockParts, format_: BlockFormat) -> ir.Value:
    """The blocks `[...]` of `format_` that have these parts. Scales are rounded to float16."""
    stored = tensor.empty([*sizes(parts.scale), format_.bytes], T.i8())
    stored = _write(stored, format_, "scale", _half_bytes(parts.scale))
    if parts.minimum is not None:
        stored = _write(stored, format_, "minimum", _half_bytes(parts.minimum))
    stored = _write(stored, format_, "packed", _packed_integers(parts.integers, format_))
    return to_blocks(stored, block_type(format_))


def dequantize(x: ir.Value) -> ir.Value:
    """The values `[..., K]`, in f32, of the blocks `x [..., K/G]`."""
    return values(unpack(x))


def values(parts: BlockParts) -> ir.Value:
    """What the parts of blocks `[..., K/G]` stand for, in f32: `[..., K]`."""
    rank = parts.scale.type.rank
    lead = letters(rank)
    operands = [parts.scale] if parts.minimum is None else [parts.scale, parts.minimum]

    def value(integer: ir.Value, scale: ir.Value, *rest: ir.Value) -> ir.Value:
        product = arith.mulf(scale, arith.sitofp(scale.type, integer))
        return product if parts.minimum is None else arith.addf(product, rest[0])

    notation = ",".join([f"{lead}v", *[lead] * len(operands)])
    f32 = parts.scale.type.element_type
    y = pointwise(f"{notation}->{lead}v", value, parts.integers, *operands, element=f32)
    return collapse(y, [*[1] * (rank - 1), 2])


def read_integers(packed: ir.Value, format_: BlockFormat) -> ir.Value:
    """The integers i8 `[..., G]` that lie in the bytes `packed` of each block."""
    if format_.bits == 8:
        return packed
    lead = letters(packed.type.rank)
    first, *others = (
        give(slice_of_rows(packed, start, plane.bytes_of(format_.values)), plane)
        for start, plane in format_.plane_starts()
    )

    def join(bits: ir.Value, *rest: ir.Value) -> ir.Value:
        *more, _ = rest
        stored = fold(arith.ori, more, bits)
        return arith.subi(stored, byte(format_.offset)) if format_.offset else stored

    if not (others or format_.offset):
        return first
    return pointwise(f"{','.join([lead] * (1 + len(others)))}->{lead}", join, first, *others)


def give(words: ir.Value, plane: BitPlane) -> ir.Value:
    """The bits of a plane i8 `[..., bytes]`, at their place in integers i8 `[..., G]`."""
    lead, i8 = letters(words.type.rank - 1), words.type.element_type

    def part(packed: ir.Value, _: ir.Value) -> ir.Value:
        moved = arith.shrui(packed, _shift(len(lead), plane, i8))
        moved = arith.shli(moved, constant(plane.place, i8)) if plane.place else moved
        return arith.andi(moved, byte(plane.mask))

    parts = pointwise(f"{lead}b->{lead}hb", part, words, h=plane.sharers)
    return collapse(parts, [*[1] * len(lead), 2])


def take(stored: ir.Value, plane: BitPlane) -> ir.Value:
    """The plane i8 `[..., bytes]` of integers i8 `[..., G]`."""
    lead, i8 = letters(stored.type.rank - 1), stored.type.element_type
    *leading, values = sizes(stored)
    size = plane.bytes_of(values)
    parts = expand(stored, [*([extent] for extent in leading), [plane.sharers, size]])

    def join(integer: ir.Value, packed: ir.Value) -> ir.Value:
        bits = arith.andi(integer, byte(plane.mask))
        bits = arith.shrui(bits, constant(plane.place, i8)) if plane.place else bits
        return arith.ori(packed, arith.shli(bits, _shift(len(lead) + 1, plane, i8)))

    return reduce(f"{lead}hb->{lead}b", join, 0, parts)


def _shift(dim: int, plane: BitPlane, i8: ir.Type) -> ir.Value:
    """Where in a byte the bits begin that loop number `dim` has come to."""
    return arith.index_cast(i8, arith.muli(loop_index(dim), index(plane.bits)))


def pack_in_order(integers: ir.Value, format_: BlockFormat) -> ir.Value:
    """The bytes i8 `[..., S]` of `integers [..., G]` of blocks, pairs of 4 bits in a byte."""
    stored = _stored(integers, format_)
    if format_.bits != 4:
        return stored
    *leading, _ = sizes(stored)
    count = format_.values // 2
    pairs = expand(stored, [*[[size] for size in leading], [count, 2]])
    extents = [*leading, count, 1]
    at = [0] * len(leading)
    low, high = (slice_of(pairs, [*at, 0, half], extents, extents[:-1]) for half in (0, 1))
    lead, i8 = letters(low.type.rank), low.type.element_type

    def join(low: ir.Value, high: ir.Value, _: ir.Value) -> ir.Value:
        return arith.ori(low, arith.shli(high, constant(4, i8)))

    return pointwise(f"{lead},{lead}->{lead}", join, low, high)


def _packed_integers(integers: ir.Value, format_: BlockFormat) -> ir.Value:
    if format_.bits == 8:
        return integers
    stored = _stored(integers, format_)
    planes = [take(stored, plane) for plane in format_.planes]
    if len(planes) == 1:
        return planes[0]
    *leading, _ = stored.type.shape
    size = format_.bytes_of("packed")[1]
    type_ = ir.RankedTensorType.get([*leading, size], stored.type.element_type)
    return tensor.concat(type_, len(leading), planes)


def _stored(integers: ir.Value, format_: BlockFormat) -> ir.Value:
    """The integers i8 `[..., G]` as they are stored, without sign where they have fewer bits."""
    if not format_.offset:
        return integers
    lead = letters(integers.type.rank)
    return pointwise(
        f"{lead}->{lead}", lambda each, _: arith.addi(each, byte(format_.offset)), integers
    )


def read_halves(both: ir.Value) -> ir.Value:
    """A float16 that lies in two bytes, the lower first, as f32: i8 `[..., 2]` -> `[...]`."""
    *leading, _ = sizes(both)
    low, high = (
        slice_of(both, [*[0] * len(leading), half], [*leading, 1], leading) for half in (0, 1)
    )
    lead, i16, f32 = letters(len(leading)), T.i16(), T.f32()

    def join(low: ir.Value, high: ir.Value, _: ir.Value) -> ir.Value:
        high = arith.shli(arith.extui(i16, high), constant(8, i16))
        bits = arith.ori(arith.extui(i16, low), high)
        return arith.extf(f32, arith.bitcast(T.f16(), bits))

    return pointwise(f"{lead},{lead}->{lead}", join, low, high, element=f32)


def _half_bytes(value: ir.Value) -> ir.Value:
    """The two bytes of f32 `value [...]` as float16: i8 `[..., 2]`."""
    lead, i8, i16 = letters(value.type.rank), T.i8(), T.i16()

    def part(x: ir.Value, _: ir.Value) -> ir.Value:
        bits = arith.bitcast(i16, arith.truncf(T.f16(), x))
        bit = arith.index_cast(i16, arith.muli(loop_index(len(lead)), index(8)))
        return arith.trunci(i8, arith.shrui(bits, bit))

    return pointwise(f"{lead}->{lead}b", part, value, element=i8, b=2)


def _field(stored: ir.Value, format_: BlockFormat, field: str) -> ir.Value:
    """The bytes of a field of each block."""
    offsets, extents = _place(stored, format_, field)
    return slice_of(stored, offsets, extents, extents)


def _write(stored: ir.Value, format_: BlockFormat, field: str, content: ir.Value) -> ir.Value:
    return insert(content, stored, *_place(stored, format_, field))


def _place(stored: ir.Value, format_: BlockFormat, field: str) -> tuple[list, list]:
    """Offsets and extents of a field in a tensor of bytes."""
    *leading, _ = sizes(stored)
    start, count = format_.bytes_of(field)
    return [*[0] * len(leading), start], [*leading, count]
