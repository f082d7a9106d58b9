"""What kernels share that compute with vectors of float32."""

from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith, vector


def width_of(widest: int, *extents: int) -> int:
    """The largest power of two up to `widest` that divides all of `extents`."""
    while any(extent % widest for extent in extents):
        widest //= 2
    return widest


def divisor(number: int, most: int) -> int:
    """The largest divisor of `number` that is at most `most`."""
    return next(count for count in range(most, 0, -1) if number % count == 0)


def floats(lanes: int) -> ir.VectorType:
    """The type of a vector of `lanes` numbers."""
    return ir.VectorType.get([lanes], ir.F32Type.get())


def splat(value: float, lanes: int) -> ir.Value:
    """A constant in every lane."""
    element = ir.FloatAttr.get(ir.F32Type.get(), value)
    return arith.ConstantOp(
        floats(lanes), ir.DenseElementsAttr.get_splat(floats(lanes), element)
    ).result


def load(buffer: ir.Value, where: Sequence[ir.Value], lanes: int) -> ir.Value:
    """`lanes` numbers of `buffer`, which may hold narrower ones, from `where` on."""
    stored = ir.VectorType.get([lanes], buffer.type.element_type)
    read = vector.load(stored, buffer, list(where))
    return read if stored == floats(lanes) else arith.extf(floats(lanes), read)


def store(value: ir.Value, buffer: ir.Value, where: Sequence[ir.Value]) -> None:
    """Writes `value` to `buffer`, which may hold narrower numbers, from `where` on."""
    stored = ir.VectorType.get(value.type.shape, buffer.type.element_type)
    vector.store(value if stored == value.type else arith.truncf(stored, value), buffer, where)


def total(value: ir.Value) -> ir.Value:
    """The sum of all lanes."""
    return vector.reduction(
        ir.F32Type.get(), vector.CombiningKind.ADD, value, fastmath=arith.FastMathFlags.reassoc
    )


def four_totals(values: Sequence[ir.Value]) -> ir.Value:
    """The sums of all lanes of each of four vectors, as one vector of four.

    The four are transposed in blocks of four lanes while they are added up: fewer shuffles than
    four reductions take, and none that crosses 128 bits until all are one vector.
    """
    lanes = values[0].type.shape[0]
    if lanes < 4:
        return vector.from_elements(floats(4), [total(value) for value in values])
    pairs = [_meet(x, y, (0, 4, 1, 5), (2, 6, 3, 7)) for x, y in (values[:2], values[2:])]
    sums = _meet(*pairs, (0, 1, 4, 5), (2, 3, 6, 7))
    while lanes > 4:
        lanes //= 2
        halves = [vector.shuffle(sums, sums, range(at, at + lanes)) for at in (0, lanes)]
        sums = arith.addf(*halves)
    return sums


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
