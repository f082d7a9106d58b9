"""What a quantised linear layer computes, in the linalg operations that its schedules work on.

Each operation is a *stage*, which schedules name. The letters of loops: rows `t` of activations,
panels `p` of weights and their rows `j`, blocks `b` of G values `v`, which lie in words `g` of
four bytes `i`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce as fold

from torch_mlir import ir
from torch_mlir.dialects import arith, linalg, math
from torch_mlir.extras import types as T

from llmc.dialects.bit_plane import BitPlane
from llmc.dialects.block_panels import WORD, header
from llmc.dialects.block_parts import HIGH, LOW, MIDDLE, OFFSET
from llmc.dialects.blocks import Q8_0, BlockFormat
from llmc.dialects.index_notation import (
    Body,
    byte,
    constant,
    expand,
    filled,
    pointwise,
    reduce,
    sizes,
    slice_of,
)
from llmc.dialects.quantize import times_inverse
from llmc.pipelines.kernels.kernel import multiply_add
from llmc.pipelines.kernels.marks import STAGE


@dataclass(frozen=True)
class Plane:
    """Some bits of each integer, which lie in cells of i8 `stored [P, B, S]`.

    `start` bytes of each row's block come before them.
    """

    stored: ir.Value
    start: int
    bits: BitPlane


@dataclass(frozen=True)
class Panels:
    """A weight in panels of J = `columns` rows: the `planes` of its integers, and its floats.

    The floats are f16 `halves [P, B, H]`. Bits that are in no plane are taken from `unread`. Of
    integers of 8 bits, `biased` says that they are stored with 128 added, and `signed` that they
    are multiplied without: instructions that multiply unsigned by signed ones need it added. Bits
    from number `place` on are multiplied, and the products are shifted by as much.
    """

    planes: Sequence[Plane]
    halves: ir.Value
    format: BlockFormat
    columns: int
    signed: bool
    biased: bool = False
    unread: int = 0
    place: int = 0

    @classmethod
    def of_blocks(
        cls, stored: ir.Value, halves: ir.Value, format_: BlockFormat, signed: bool
    ) -> "Panels":
        """What `llmc.pack_blocks` makes of blocks; `halves` are the bytes of `stored` as f16."""
        planes = [Plane(stored, *each) for each in format_.plane_starts(header(format_))]
        columns = stored.type.shape[-1] // format_.bytes
        return cls(planes, halves, format_, columns, signed)

    @classmethod
    def of_planes(
        cls, high: ir.Value, low: ir.Value | None, halves: ir.Value, signed: bool
    ) -> "Panels":
        """What `llmc.pack_planes` makes of blocks; `halves` are the bytes of `high` as f16."""
        planes = [Plane(high, *each) for each in HIGH.starts]
        columns = high.type.shape[-1] // HIGH.bytes
        if low is not None:
            planes += [Plane(low, *each) for each in LOW.starts]
            return cls(planes, halves, Q8_0, columns, signed, biased=True)
        if not signed:
            return cls(planes, halves, Q8_0, columns, signed, biased=True, unread=MIDDLE)
        # What multiplies signed integers is faster at small ones without a sign.
        place = min(plane.bits.place for plane in planes)
        return cls(planes, halves, Q8_0, columns, signed=False, biased=True, place=place)

    @property
    def count(self) -> int:
        """P."""
        return self.halves.type.shape[0]

    @property
    def adds_offset(self) -> bool:
        """Whether integers are multiplied with an offset added, which products have too much."""
        return self.format.offset > 0 or (self.format.bits == 8 and not self.signed)

    def half(self, number: int) -> ir.Value:
        """Scales `[P, B, J]` for 0, minima for 1."""
        panels, blocks, _ = self.halves.type.shape
        extents = [panels, blocks, self.columns]
        return slice_of(self.halves, [0, 0, number * self.columns], extents, extents)


@dataclass(frozen=True)
class QuantizedRows:
    """Activations as integers `values [T, B, G]` and a factor for each block, `scales [T, B]`.

    `shares [T, B]` belongs to the sum of a block's integers: times its scale, to be multiplied by
    the weight's minimum, in f32; for weights without minima, times their offset, in i32.
    """

    values: ir.Value
    scales: ir.Value
    shares: ir.Value

    @property
    def tensors(self) -> list[ir.Value]:
        """All three, in their order."""
        return [self.values, self.scales, self.shares]


@dataclass(frozen=True)
class Norm:
    """An RMS norm over the rows: `weight [B, G]`, to which `offset` is added, or none."""

    epsilon: float
    weight: ir.Value | None = None
    offset: float = 0.0


def quantize(x: ir.Value, norm: Norm | None, has_minimum: bool, offset: int) -> QuantizedRows:
    """The rows `x [T, B, G]`, normalised where there is a norm, as `llmc.quantize_rows` does it.

    Changes numerics where there is a norm: the order of the sum of squares.
    """
    normed = _Normed.of(x, norm)
    f32, i8, i32 = x.type.element_type, T.i8(), T.i32()

    def magnitude(*operands: ir.Value) -> ir.Value:
        # Floats that are not negative are in the order of their bits.
        *elements, most = operands
        bits = arith.bitcast(i32, math.absf(normed.body(*elements)))
        return arith.maxsi(bits, most)

    def scale(bits: ir.Value, _: ir.Value) -> ir.Value:
        return arith.divf(arith.bitcast(f32, bits), constant(127.0, f32))

    def nearest(*operands: ir.Value) -> ir.Value:
        *elements, scale, _ = operands
        return arith.fptosi(i8, math.round(times_inverse(normed.body(*elements), scale)))

    def add(value: ir.Value, total: ir.Value) -> ir.Value:
        return arith.addi(total, arith.extsi(i32, value))

    def share(total: ir.Value, scale: ir.Value, _: ir.Value) -> ir.Value:
        if has_minimum:
            return arith.mulf(arith.sitofp(f32, total), scale)
        return arith.muli(total, constant(offset, i32))

    each = normed.notation
    bits = reduce(f"{each}->tb", magnitude, 0, *normed.operands, element=i32)
    scales = pointwise("tb->tb", scale, bits, element=f32)
    values = pointwise(f"{each},tb->tbv", nearest, *normed.operands, scales, element=i8)
    totals = reduce("tbv->tb", add, 0, values, element=i32)
    shares = pointwise("tb,tb->tb", share, totals, scales, element=f32 if has_minimum else i32)
    _name("magnitudes", bits)
    _name("scales", scales)
    _name("values", values)
    _name("totals", totals)
    _name("shares", shares)
    return QuantizedRows(values, scales, shares)


def multiply(rows: QuantizedRows, panels: Panels, strand: int = 0) -> ir.Value:
    """The products `[T, P, J]`. The names of the stages end in `strand`, its number in a kernel."""
    dots, f32 = _dots(rows, panels, strand), rows.scales.type.element_type

    def scale_add(dot: ir.Value, x: ir.Value, share: ir.Value, *rest: ir.Value) -> ir.Value:
        *halves, total = rest
        scale, *minimum = [arith.extf(f32, half) for half in halves]
        if panels.place:
            dot = arith.shli(dot, constant(panels.place, dot.type))
        if panels.adds_offset:
            dot = arith.subi(dot, share)
        total = multiply_add(arith.mulf(arith.sitofp(f32, dot), x), scale, total)
        return multiply_add(share, minimum[0], total) if minimum else total

    halves = [panels.half(number) for number in range(2 if panels.format.has_minimum else 1)]
    notation = ",".join(["tpbj,tb,tb", *["pbj"] * len(halves)])
    operands = [dots, rows.scales, rows.shares, *halves]
    sums = reduce(f"{notation}->tpj", scale_add, 0.0, *operands, element=f32)
    _name(f"sums{strand}", sums)
    return sums


def _dots(rows: QuantizedRows, panels: Panels, strand: int) -> ir.Value:
    """The sums of products of a block, i32 `[T, P, B, J]`."""
    i8, i32 = T.i8(), T.i32()
    # A block is multiplied in as many parts as integers share a byte of the plane of fewest bits:
    # what is read of that plane for a word of one part then serves those of all others.
    parts = 8 // min(plane.bits.bits for plane in panels.planes)
    words = panels.format.values // parts // WORD
    tokens, blocks, _ = sizes(rows.values)
    x = expand(rows.values, [[tokens], [blocks], [parts, words, WORD]])
    reads = [
        (plane, first)
        for plane in panels.planes
        for first in range(0, _words(plane, panels.format), words)
    ]

    def add_products(*operands: ir.Value) -> ir.Value:
        *given, total = operands
        stored, values = dict(zip(reads, given, strict=False)), given[len(reads) :]
        for part, value in enumerate(values):
            weight = _integer_of(stored, part * words, panels)
            total = arith.addi(total, arith.muli(weight, arith.extsi(i32, value)))
        return total

    dim = ir.AffineDimExpr.get
    t, p, b, j, g, i = map(dim, range(6))
    maps = []
    for plane, first in reads:
        start = panels.columns * (plane.start + first * WORD)
        maps.append([p, b, start + g * (WORD * panels.columns) + j * WORD + i])
    maps += [[t, b, _constant(part), g, i] for part in range(parts)]
    maps.append([t, p, b, j])
    zeros = filled([tokens, panels.count, blocks, panels.columns], 0, i32)
    kinds = ["parallel"] * 4 + ["reduction"] * 2
    op = linalg.GenericOp(
        [zeros.type],
        [*(plane.stored for plane, _ in reads), *[x] * parts],
        [zeros],
        [ir.AffineMap.get(6, 0, results) for results in maps],
        kinds,
    )
    types = [i8] * (len(reads) + parts) + [i32]
    with ir.InsertionPoint(op.regions[0].blocks.append(*types, arg_locs=None)) as point:
        linalg.YieldOp([add_products(*point.block.arguments)])
    _name(f"dots{strand}", op.results[0])
    return op.results[0]


def _words(plane: Plane, format_: BlockFormat) -> int:
    """How many words of four bytes a plane has of each block."""
    return plane.bits.bytes_of(format_.values) // WORD


def _integer_of(
    stored: Mapping[tuple[Plane, int], ir.Value], word: int, panels: Panels
) -> ir.Value:
    """An integer, i32, of the part of a block that begins with word number `word`.

    `stored` are the bytes of each plane that such integers lie in, by the word where they begin.
    """
    bits = []
    for plane in panels.planes:
        shift, first = divmod(word, _words(plane, panels.format))
        multiplied = replace(plane.bits, place=plane.bits.place - panels.place)
        bits.append(_bits(stored[plane, first], shift * plane.bits.bits, multiplied))
    return _widened(bits, panels)


def _bits(stored: ir.Value, shift: int, plane: BitPlane) -> ir.Value:
    """The bits of a plane, moved from bit `shift` of the byte `stored` to their place."""
    by = plane.place - shift
    if by:
        move = arith.shli if by > 0 else arith.shrui
        stored = move(stored, constant(abs(by), stored.type))
    left = (255 << by if by > 0 else 255 >> -by) & 255
    return stored if left == plane.mask else arith.andi(stored, byte(plane.mask))


def _widened(bits: list[ir.Value], panels: Panels) -> ir.Value:
    """The integer, i32, that is multiplied: put together from the `bits` of all planes."""
    i32, stored = T.i32(), fold(arith.ori, bits)
    if panels.unread:
        stored = arith.ori(stored, byte(panels.unread))
    if panels.format.bits < 8:
        return arith.extui(i32, stored)
    if panels.biased == panels.signed:
        stored = arith.xori(stored, byte(OFFSET))
    return arith.extsi(i32, stored) if panels.signed else arith.extui(i32, stored)


@dataclass(frozen=True)
class _Normed:
    """The elements of rows after the norm: `body` of `operands`, which `notation` spells."""

    notation: str
    operands: Sequence[ir.Value]
    body: Body

    @classmethod
    def of(cls, x: ir.Value, norm: Norm | None) -> "_Normed":
        if norm is None:
            return cls("tbv", [x], lambda x: x)
        factors = _inverse_roots(x, norm.epsilon)
        if norm.weight is None:
            return cls("tbv,t", [x, factors], arith.mulf)

        def scaled(x: ir.Value, factor: ir.Value, weight: ir.Value) -> ir.Value:
            if norm.offset:
                weight = arith.addf(weight, constant(norm.offset, weight.type))
            return arith.mulf(arith.mulf(x, factor), weight)

        return cls("tbv,t,bv", [x, factors, norm.weight], scaled)


def _inverse_roots(x: ir.Value, epsilon: float) -> ir.Value:
    """`1 / sqrt(mean(x^2) + epsilon)` of each row, `[T]`; the sum in G partial ones."""
    f32 = x.type.element_type
    _, blocks, values = x.type.shape

    def inverse_root(square: ir.Value, _: ir.Value) -> ir.Value:
        mean = arith.divf(square, constant(float(blocks * values), f32))
        return math.rsqrt(arith.addf(mean, constant(epsilon, f32)))

    partial = reduce("tbv->tv", lambda x, total: multiply_add(x, x, total), 0.0, x)
    squares = reduce("tv->t", lambda x, total: arith.addf(total, x), 0.0, partial)
    factors = pointwise("t->t", inverse_root, squares)
    _name("partial_squares", partial)
    _name("squares", squares)
    _name("norms", factors)
    return factors


def _name(stage: str, value: ir.Value) -> None:
    """Names the stage that computes `value`, and what fills the sums that it begins with."""
    value.owner.attributes[STAGE] = ir.StringAttr.get(stage)
    start = value.owner.operands[len(value.owner.operands) - 1].owner
    if start.name == "linalg.fill":
        start.attributes[STAGE] = ir.StringAttr.get(f"{stage}_start")


def _constant(value: int) -> ir.AffineExpr:
    return ir.AffineConstantExpr.get(value)
