"""The kernel of `llmc.route`: a workgroup finds the largest numbers of a row one by one.

There are a hundred of them, not a vocabulary: each is found by a look at all that go after the one
before, which linalg cannot say.
"""

from torch_mlir import ir
from torch_mlir.dialects import arith, math, memref, scf
from torch_mlir.extras import types as T

from llmc.dialects.index_notation import constant, index
from llmc.pipelines.kernels.first_largest import kernel_of_rows, largest_in_turn, read_row
from llmc.pipelines.kernels.kernel import Kernel


def route(logits: ir.RankedTensorType, normalised: bool, lanes: int) -> Kernel:
    """Operand `logits [R, E]`, results `weights [R, C]` and `experts [R, C]`."""

    def build(
        numbers: ir.VectorType,
        row: ir.Value,
        _extents: list[ir.Value],
        x: ir.Value,
        weights: ir.Value,
        experts: ir.Value,
    ) -> None:
        largest, *others = (logit for logit, _ in choose(numbers, x, row, experts, row))
        powers = [constant(1.0, largest.type)]
        powers += [math.exp(arith.subf(logit, largest)) for logit in others]
        chosen = powers[0]
        for power in powers[1:]:
            chosen = arith.addf(chosen, power)
        total = chosen if normalised else sum_of_powers(x, row, largest)
        for rank, power in enumerate(powers):
            memref.store(arith.divf(power, total), weights, [row, index(rank)])

    name = "route_normalised" if normalised else "route"
    return kernel_of_rows(name, logits, lanes, build)


def choose(
    numbers: ir.VectorType, x: ir.Value, at: ir.Value, experts: ir.Value, row: ir.Value
) -> list[tuple[ir.Value, ir.Value]]:
    """The C largest numbers of row `at` of `x [N, E]`, and their places, index values.

    The places are stored in `row` of `experts [R, C]`.
    """
    columns, count = x.type.shape[1], experts.type.shape[1]
    chosen = []
    found = largest_in_turn(read_row(x, at, numbers), columns, numbers, count)
    for rank, (value, place) in enumerate(found):
        memref.store(arith.extsi(experts.type.element_type, place), experts, [row, index(rank)])
        chosen.append((value, arith.index_cast(T.index(), place)))
    return chosen


def sum_of_powers(x: ir.Value, row: ir.Value, largest: ir.Value) -> ir.Value:
    """The sum of e to each number of the row less the largest."""
    columns = index(x.type.shape[1])
    loop = scf.ForOp(index(0), columns, index(1), [constant(0.0, largest.type)])
    with ir.InsertionPoint(loop.body):
        number = memref.load(x, [row, loop.induction_variable])
        power = math.exp(arith.subf(number, largest))
        scf.yield_([arith.addf(loop.inner_iter_args[0], power)])
    return loop.result
