"""What kernels share that look for the first of the largest numbers of many."""

from collections.abc import Callable, Iterator
from math import inf
from typing import TypeAlias

from torch_mlir import ir
from torch_mlir.dialects import arith, scf, vector
from torch_mlir.extras import types as T

from llmc.dialects.argmax import equal
from llmc.dialects.index_notation import Size, constant, index
from llmc.pipelines.kernels.kernel import Kernel
from llmc.pipelines.kernels.splat import splat

# Registers that numbers are read into together, so that none waits for the one before.
_REGISTERS = 4

Read: TypeAlias = Callable[[ir.Value], tuple[ir.Value, ir.Value]]
"""From an index to vectors of numbers that stand there and of their places, the latter of i32."""


def kernel_of_rows(
    name: str, x: ir.RankedTensorType, lanes: int, build: Callable[..., None]
) -> Kernel:
    """A kernel of one workgroup for each row of its operand, of type `x [R, N]`.

    `build(numbers, row, extents, *buffers)` writes what it does, `numbers` being the type of the
    vectors to read a row by.
    """
    rows, columns = x.shape
    numbers = ir.VectorType.get([min(_REGISTERS * lanes, columns)], x.element_type)

    def grid(extents: list[ir.Value]) -> tuple[Size, Size]:
        return (extents[0] if x.is_dynamic_dim(0) else rows), 1

    def run(row: ir.Value, _: ir.Value, extents: list[ir.Value], *buffers: ir.Value) -> None:
        build(numbers, row, extents, *buffers)

    return Kernel(name, grid, run)


def first_largest(
    read: Read, begin: ir.Value, end: ir.Value, numbers: ir.VectorType, nowhere: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """The largest number that `read` gives, from `begin` to `end`, and the least of its places.

    It gives vectors of the type `numbers`. NaN is larger than any number and has no place, which
    is to say that it is at `nowhere`, which is above all places.
    """
    step = index(numbers.shape[0])
    lowest = vector.broadcast(numbers, constant(-inf, numbers.element_type))
    loop = scf.ForOp(begin, end, step, [lowest])
    with ir.InsertionPoint(loop.body):
        found, _ = read(loop.induction_variable)
        scf.yield_([arith.maximumf(loop.inner_iter_args[0], found)])
    kinds = vector.CombiningKind
    largest = vector.reduction(numbers.element_type, kinds.MAXIMUMF, loop.result)
    peak, none = vector.broadcast(numbers, largest), vector.broadcast(places(numbers), nowhere)
    loop = scf.ForOp(begin, end, step, [none])
    with ir.InsertionPoint(loop.body):
        found, where = read(loop.induction_variable)
        candidates = arith.select(equal(found, peak), where, none)
        scf.yield_([arith.minsi(loop.inner_iter_args[0], candidates)])
    return largest, vector.reduction(nowhere.type, kinds.MINSI, loop.result)


def largest_in_turn(
    read: Read, columns: int, numbers: ir.VectorType, count: int
) -> Iterator[tuple[ir.Value, ir.Value]]:
    """The `count` largest numbers that `read` gives of a row of `columns`, and their places.

    Equal ones come in the order of their places.
    """
    left, i32 = read, T.i32()
    nowhere = constant(columns, i32)
    for _ in range(count):
        value, place = first_largest(left, index(0), index(columns), numbers, nowhere)
        # Of a row that holds NaN, the largest may have no place: it must not lead out of the row.
        place = arith.minsi(place, constant(columns - 1, i32))
        yield value, place
        left = only_after(read, value, place, columns)


def only_after(read: Read, value: ir.Value, place: ir.Value, nowhere: int) -> Read:
    """Reads -inf, and `nowhere` for a place, for what does not go after `value` at `place`.

    After it go smaller numbers, and equal ones at later places.
    """

    def read_left(at: ir.Value) -> tuple[ir.Value, ir.Value]:
        found, where = read(at)
        smaller = arith.cmpf(arith.CmpFPredicate.OLT, found, vector.broadcast(found.type, value))
        later = arith.cmpi(arith.CmpIPredicate.sgt, where, vector.broadcast(where.type, place))
        equals = equal(found, vector.broadcast(found.type, value))
        is_left = arith.ori(smaller, arith.andi(equals, later))
        lowest, no_place = splat(-inf, found.type), splat(nowhere, where.type)
        return arith.select(is_left, found, lowest), arith.select(is_left, where, no_place)

    return read_left


def read_row(x: ir.Value, row: ir.Value, numbers: ir.VectorType) -> Read:
    """Reads a row of `x [R, N]`; a piece that would go beyond its end overlaps the one before."""
    width = numbers.shape[0]
    last = index(x.type.shape[1] - width)
    i32 = T.i32()
    steps = first_places(numbers)

    def read(at: ir.Value) -> tuple[ir.Value, ir.Value]:
        at = arith.minui(at, last)
        first = vector.broadcast(places(numbers), arith.index_cast(i32, at))
        return vector.load(numbers, x, [row, at]), arith.addi(steps, first)

    return read


def first_places(numbers: ir.VectorType) -> ir.Value:
    """The places of the first of all vectors of the type `numbers`: 0, 1, 2, ..."""
    type_ = places(numbers)
    count = [ir.IntegerAttr.get(type_.element_type, number) for number in range(numbers.shape[0])]
    return arith.ConstantOp(type_, ir.DenseElementsAttr.get(count, type_)).result


def places(numbers: ir.VectorType) -> ir.VectorType:
    """The type of the places of `numbers`."""
    return ir.VectorType.get(numbers.shape, T.i32())
