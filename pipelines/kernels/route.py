"""The kernel of `llmc.route`: a workgroup takes out the largest numbers of a row one by one.

There are a hundred of them, not a vocabulary: each is found by a look at all that are left, which
linalg cannot say.
"""

from collections.abc import Callable
from math import inf

from torch_mlir import ir
from torch_mlir.dialects import arith, math, memref, scf, vector

from llmc.dialects.index_notation import constant, index
from llmc.pipelines.kernels.first_largest import first_largest, kernel_of_rows, read_row
from llmc.pipelines.kernels.kernel import Kernel


def route(logits: ir.RankedTensorType, count: int, normalised: bool, lanes: int) -> Kernel:
    """Operand `logits [R, E]`, results `weights [R, C]` and `experts [R, C]`, C being `count`."""

    def build(
        numbers: ir.VectorType,
        row: ir.Value,
        _extents: list[ir.Value],
        x: ir.Value,
        weights: ir.Value,
        experts: ir.Value,
    ) -> None:
        left = made_of_row(x, row, numbers, lambda logits, _: logits)
        largest, _ = take_largest(left, numbers, experts, row, 0)
        powers = [constant(1.0, largest.type)]
        for rank in range(1, count):
            found, _ = take_largest(left, numbers, experts, row, rank)
            powers.append(math.exp(arith.subf(found, largest)))
        chosen = powers[0]
        for power in powers[1:]:
            chosen = arith.addf(chosen, power)
        total = chosen if normalised else sum_of_powers(x, row, largest)
        for rank, power in enumerate(powers):
            memref.store(arith.divf(power, total), weights, [row, index(rank)])

    name = "route_normalised" if normalised else "route"
    return kernel_of_rows(name, logits, lanes, build)


def made_of_row(
    x: ir.Value, row: ir.Value, numbers: ir.VectorType, make: Callable[..., ir.Value]
) -> ir.Value:
    """A buffer `[1, E]` of this workgroup's own, made of a row of `x [R, E]`.

    `make(vector, at)` gives what takes the place of the numbers from `at` on.
    """
    (width,), columns = numbers.shape, x.type.shape[1]
    buffer = memref.alloca(ir.MemRefType.get([1, columns], numbers.element_type), [], [])
    for at in scf.for_(index(0), index(columns), index(width)):
        at = arith.minui(at, index(columns - width))
        vector.store(make(vector.load(numbers, x, [row, at]), at), buffer, [index(0), at])
        scf.yield_([])
    return buffer


def take_largest(
    left: ir.Value, numbers: ir.VectorType, experts: ir.Value, row: ir.Value, rank: int
) -> tuple[ir.Value, ir.Value]:
    """The first of the largest numbers of `left [1, E]`, which it is taken out of, and its place.

    The place is stored in `experts [R, C]`, too, as that of this `rank`, and returned as an index.
    """
    i32, columns = ir.IntegerType.get_signless(32), left.type.shape[1]
    read = read_row(left, index(0), numbers)
    nowhere = constant(columns, i32)
    value, place = first_largest(read, index(0), index(columns), numbers, nowhere)
    # Of a row that holds NaN, the largest may have no place: it must not lead out of the row.
    place = arith.minsi(place, constant(columns - 1, i32))
    memref.store(arith.extsi(experts.type.element_type, place), experts, [row, index(rank)])
    where = arith.index_cast(ir.IndexType.get(), place)
    memref.store(constant(-inf, numbers.element_type), left, [index(0), where])
    return value, where


def sum_of_powers(x: ir.Value, row: ir.Value, largest: ir.Value) -> ir.Value:
    """The sum of e to each number of the row less the largest."""
    columns = index(x.type.shape[1])
    loop = scf.ForOp(index(0), columns, index(1), [constant(0.0, largest.type)])
    with ir.InsertionPoint(loop.body):
        number = memref.load(x, [row, loop.induction_variable])
        power = math.exp(arith.subf(number, largest))
        scf.yield_([arith.addf(loop.inner_iter_args[0], power)])
    return loop.result
