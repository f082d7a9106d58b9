"""What kernels share that compute with vectors of float32."""

from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith, vector
from torch_mlir.extras import types as T

from llmc.dialects.index_notation import index, widened
from llmc.dialects.walsh_hadamard import DISTANCES, SCALE
from llmc.pipelines.kernels.kernel import multiply_add
from llmc.pipelines.kernels.splat import splat

# By this, numbers become those whose powers of 2, and not e, are wanted: fewer instructions.
LOG2_E = 1.4426950408889634
# What the largest of some numbers is taken for at least, where they are divided by it.
LEAST_DIVISOR = 1e-30
# The bits of a float32's mantissa.
_MANTISSA = 23
# Beside this, floats are integers: the last bits of its sum with a number are the nearest one.
_LARGE, _BITS_OF_LARGE = 1.5 * 2**23, 0x4B400000
# The polynomial of `exp2_of_negative`, from the fifth power down; off by at most 9.2e-8.
_EXP2 = (
    0.00132647241109,
    0.00967151258527,
    0.0555073375224,
    0.240222420870,
    0.693146977596,
    1.0,
)


def width_of(widest: int, *extents: int) -> int:
    """The largest power of two up to `widest` that divides all of `extents`."""
    while any(extent % widest for extent in extents):
        widest //= 2
    return widest


def floats(lanes: int) -> ir.VectorType:
    """The type of a vector of `lanes` numbers."""
    return ir.VectorType.get([lanes], T.f32())


def _numbers(values: Sequence[float]) -> ir.Value:
    """A constant vector of these."""
    type_ = floats(len(values))
    elements = [ir.FloatAttr.get(type_.element_type, value) for value in values]
    return arith.ConstantOp(type_, ir.DenseElementsAttr.get(elements, type_)).result


def load(buffer: ir.Value, where: Sequence[ir.Value], lanes: int) -> ir.Value:
    """`lanes` numbers of `buffer`, which may hold narrower ones, from `where` on."""
    stored = ir.VectorType.get([lanes], buffer.type.element_type)
    return widened(vector.load(stored, buffer, list(where)), floats(lanes))


def read_bytes(buffer: ir.Value, where: Sequence[ir.Value], count: int) -> ir.Value:
    """`count` bytes of `buffer` from `where` on."""
    return vector.load(ir.VectorType.get([count], buffer.type.element_type), buffer, list(where))


def store(value: ir.Value, buffer: ir.Value, where: Sequence[ir.Value]) -> None:
    """Writes `value` to `buffer`, which may hold narrower numbers, from `where` on."""
    stored = ir.VectorType.get(value.type.shape, buffer.type.element_type)
    vector.store(value if stored == value.type else arith.truncf(stored, value), buffer, where)


def clear_behind(buffer: ir.Value, where: Sequence[ir.Value], count: int) -> None:
    """Writes zeros behind the first `count` numbers of the row of `buffer [..., N]` at `where`."""
    left = buffer.type.shape[-1] - count
    if left:
        zeros = splat(0.0, ir.VectorType.get([left], buffer.type.element_type))
        vector.store(zeros, buffer, [*where, index(count)])


def total(value: ir.Value) -> ir.Value:
    """The sum of all lanes."""
    return vector.reduction(
        T.f32(), vector.CombiningKind.ADD, value, fastmath=arith.FastMathFlags.reassoc
    )


def maximum(x: ir.Value, y: ir.Value) -> ir.Value:
    """The larger one in each lane, of numbers: one instruction, four where NaN had a say."""
    numbers = arith.FastMathFlags.nnan | arith.FastMathFlags.nsz
    return arith.maximumf(x, y, fastmath=numbers)


def minimum(x: ir.Value, y: ir.Value) -> ir.Value:
    """The smaller one in each lane, of numbers, as `maximum` the larger one."""
    numbers = arith.FastMathFlags.nnan | arith.FastMathFlags.nsz
    return arith.minimumf(x, y, fastmath=numbers)


def highest(value: ir.Value) -> ir.Value:
    """The highest of all lanes, in every lane."""
    lanes = value.type.shape[0]
    distance = lanes // 2
    while distance:
        turned = vector.shuffle(value, value, [lane ^ distance for lane in range(lanes)])
        value = maximum(value, turned)
        distance //= 2
    return value


def nearest_integers(x: ir.Value) -> ir.Value:
    """The i32 nearest to numbers of a magnitude up to 2^22; of two, the even one.

    Two instructions, where `math.roundeven` becomes seventy.
    """
    bits = ir.VectorType.get(x.type.shape, T.i32())
    sum_ = arith.addf(x, splat(_LARGE, x.type))
    return arith.subi(arith.bitcast(bits, sum_), splat(_BITS_OF_LARGE, bits))


def exp2_of_negative(x: ir.Value) -> ir.Value:
    """2 to the power of a vector of numbers that are at most 0, within 2 units in the last place.

    Of what is below -126 it is 2^-126. A polynomial gives the power of what is left of x when its
    nearest integer, which becomes the exponent, is gone; it is the best on [-1/2, 1/2] (Remez) of
    those that are 1 at 0: what is shrunk by 2^0 stays as it is.
    """
    lanes = x.type.shape[0]
    bits = ir.VectorType.get([lanes], T.i32())
    x = maximum(x, splat(-126.0, floats(lanes)))
    large = splat(_LARGE, floats(lanes))
    sum_ = arith.addf(x, large)
    rest = arith.subf(x, arith.subf(sum_, large))
    power = splat(_EXP2[0], floats(lanes))
    for factor in _EXP2[1:]:
        power = multiply_add(power, rest, splat(factor, floats(lanes)))
    exponent = arith.shli(arith.bitcast(bits, sum_), splat(_MANTISSA, bits))
    return arith.bitcast(x.type, arith.addi(arith.bitcast(bits, power), exponent))


def walsh_hadamard(numbers: Sequence[ir.Value]) -> list[ir.Value]:
    """The transform of 32 numbers in vectors that follow each other, as `dialects` computes it."""
    lanes = numbers[0].type.shape[0]
    numbers = list(numbers)
    for distance in DISTANCES:
        if distance < lanes:
            signs = _numbers([-1.0 if lane & distance else 1.0 for lane in range(lanes)])
            partners = [lane ^ distance for lane in range(lanes)]
            numbers = [multiply_add(x, signs, vector.shuffle(x, x, partners)) for x in numbers]
            continue
        apart = distance // lanes
        for first in (place for place in range(len(numbers)) if not place & apart):
            x, y = numbers[first], numbers[first + apart]
            numbers[first], numbers[first + apart] = arith.addf(x, y), arith.subf(x, y)
    return [arith.mulf(x, splat(SCALE, floats(lanes))) for x in numbers]


def transpose(rows: Sequence[ir.Value]) -> list[ir.Value]:
    """The columns of n vectors of n lanes each, n a power of two, by log n rounds of n shuffles.

    Of longer vectors each n lanes are turned for themselves.
    """
    width = rows[0].type.shape[0]
    columns, lanes, distance = list(rows), range(width), 1
    while distance < len(rows):
        for i in (row for row in range(len(rows)) if not row & distance):
            x, y = columns[i], columns[i + distance]
            low = [lane if not lane & distance else lane - distance + width for lane in lanes]
            high = [lane + distance if not lane & distance else lane + width for lane in lanes]
            columns[i], columns[i + distance] = (vector.shuffle(x, y, m) for m in (low, high))
        distance *= 2
    return columns


def quad(values: Sequence[ir.Value]) -> ir.Value:
    """Four vectors as one, whose lanes modulo 4 add up to what the lanes of each do.

    They are transposed in blocks of four lanes while they are added up: fewer shuffles than four
    reductions take, and none that crosses 128 bits.
    """
    if values[0].type.shape[0] < 4:
        return vector.from_elements(floats(4), [total(value) for value in values])
    pairs = [_meet(x, y, (0, 4, 1, 5), (2, 6, 3, 7)) for x, y in (values[:2], values[2:])]
    return _meet(*pairs, (0, 1, 4, 5), (2, 3, 6, 7))


def join_quads(quads: list[ir.Value]) -> ir.Value:
    """The sums of what `quad` gave, in order, as one vector of four for each.

    There are at least as many as each has blocks of four lanes, both being powers of two.
    """
    blocks = quads[0].type.shape[0] // 4
    while blocks > 1:
        quads = [_add_blocks(x, y) for x, y in zip(quads[::2], quads[1::2], strict=True)]
        blocks //= 2
    while len(quads) > 1:
        lanes = 2 * quads[0].type.shape[0]
        pairs = zip(quads[::2], quads[1::2], strict=True)
        quads = [vector.shuffle(x, y, range(lanes)) for x, y in pairs]
    return quads[0]


def _add_blocks(x: ir.Value, y: ir.Value) -> ir.Value:
    """The sums of neighbouring blocks of four lanes of x, then those of y."""
    lanes = range(2 * x.type.shape[0])
    masks = ([lane for lane in lanes if lane // 4 % 2 == odd] for odd in (0, 1))
    return arith.addf(*(vector.shuffle(x, y, mask) for mask in masks))


def _meet(x: ir.Value, y: ir.Value, *picks: tuple[int, ...]) -> ir.Value:
    """The sum of two shuffles of x and y, both alike in each block of four lanes.

    A pick counts the lanes of a block of x as 0 to 3, those of y's as 4 to 7.
    """
    lanes = x.type.shape[0]
    masks = (
        [block + lane % 4 + lane // 4 * lanes for block in range(0, lanes, 4) for lane in pick]
        for pick in picks
    )
    return arith.addf(*(vector.shuffle(x, y, mask) for mask in masks))
