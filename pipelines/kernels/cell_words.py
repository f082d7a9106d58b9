"""Words of cells as instructions multiply them: four integers, or as many halves of these.

An upper half without sign, h, stands for integers whose mean is 16 h - 120.5: products with it are
all that is known of a product while lower halves are not read.
"""

from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith, vector
from torch_mlir.extras import types as T

from llmc.dialects.block_panels import WORD
from llmc.dialects.cache_cells import PANEL, PLANES, UPPER, Plane
from llmc.dialects.index_notation import constant
from llmc.pipelines.kernels.byte_instructions import Instructions, vpmaddubsw
from llmc.pipelines.kernels.cell_panels import CellPanels
from llmc.pipelines.kernels.splat import splat
from llmc.pipelines.kernels.vectors import read_bytes

LARGEST_HALF = 15
"""What no half is above."""

EACH_WORD = [range(word, word + 1) for word in range(PANEL // WORD)]
"""The words of a panel, one by one."""

OFFSET = -128
"""What is to be added to an integer that is stored without sign."""

_HALF_BITS = 4
# Twice what is, if only the upper half is known: a lower one is as likely 0 as `LARGEST_HALF`.
_TWICE_MEAN_OFFSET = 2 * OFFSET + LARGEST_HALF
# The signs of both halves of a byte, as a byte.
_SIGNS = 0x88 - 256


def adds_in_16_bits(multiply: Instructions) -> bool:
    """Whether 16 bits take up products first, which have room for those with halves of 8 words."""
    return multiply is vpmaddubsw


def halves_at_once(multiply: Instructions) -> list[range]:
    """The words of a panel, those together whose products with halves are added up at once."""
    return [range(len(EACH_WORD))] if adds_in_16_bits(multiply) else EACH_WORD


def integers_of(
    cells: CellPanels, panel: ir.Value, word: int, lane: int, lanes: int
) -> list[ir.Value]:
    """Words number `word` of `lanes` from `lane` on, and of the same 16 channels further."""
    upper, lower = (cells.read(panel, plane, word, lane, lanes) for plane in PLANES)
    shift, low = splat(_HALF_BITS, upper.type), splat(LARGEST_HALF, upper.type)
    high = splat(~LARGEST_HALF, upper.type)
    first = arith.ori(arith.shli(upper, shift), arith.andi(lower, low))
    second = arith.ori(arith.andi(upper, high), arith.shrui(lower, shift))
    return [first, second]


def halves_of(
    cells: CellPanels, plane: Plane, panel: ir.Value, word: int, lane: int, lanes: int
) -> list[ir.Value]:
    """As `integers_of`, but halves of these without sign: upper ones are 8 more than with it."""
    both = cells.read(panel, plane, word, lane, lanes)
    if plane is UPPER:
        both = arith.xori(both, splat(_SIGNS, both.type))
    low, shift = (splat(number, both.type) for number in (LARGEST_HALF, _HALF_BITS))
    return [arith.andi(both, low), arith.shrui(both, shift)]


def raised(sum_: ir.Value) -> ir.Value:
    """Sums of products with upper halves, as ones with lower halves may be added to."""
    return arith.shli(sum_, splat(_HALF_BITS, sum_.type))


def offset(total: ir.Value) -> ir.Value:
    """What `raised` products of upper halves with factors that add up to `total` have too little.

    An integer, as `total` is.
    """
    twice = arith.muli(total, constant(_TWICE_MEAN_OFFSET, total.type))
    return arith.shrsi(twice, constant(1, total.type))


def starts(total: ir.Value) -> tuple[ir.Value, ir.Value]:
    """What sums of products with upper halves start from, and those with lower halves.

    The factors add up to `total`, an integer, as both are. Upper halves take lower ones for their
    mean, rounded to what 1 is worth; with lower halves, the products are those with integers.
    """
    bits = constant(_HALF_BITS, total.type)
    upper = arith.shrsi(offset(total), bits)
    both = arith.muli(total, constant(OFFSET, total.type))
    return upper, arith.subi(both, arith.shli(upper, bits))


def word_in_lanes(bytes_: ir.Value, where: Sequence[ir.Value], lanes: int) -> ir.Value:
    """Four of `bytes_` from `where` on, in each of `lanes`."""
    i32 = T.i32()
    one, all_ = (ir.VectorType.get([count], i32) for count in (1, lanes))
    word = vector.bitcast(one, read_bytes(bytes_, where, WORD))
    words = vector.broadcast(all_, vector.extract(word, [], [0]))
    return vector.bitcast(ir.VectorType.get([WORD * lanes], bytes_.type.element_type), words)
