"""The kernel of `llmc.scored_route`: the largest scores, found one by one.

As `route`, whose search linalg cannot say either.
"""

from collections.abc import Callable
from functools import reduce

from torch_mlir import ir
from torch_mlir.dialects import arith, math, memref, scf, vector
from torch_mlir.extras import types as T

from llmc.dialects import ScoredRouteOp
from llmc.dialects.index_notation import constant, index
from llmc.dialects.scored_route import sigmoid
from llmc.pipelines.kernels.expert_groups import leave_out_groups
from llmc.pipelines.kernels.first_largest import first_largest, kernel_of_rows, read_row
from llmc.pipelines.kernels.kernel import Kernel, in_symbol
from llmc.pipelines.kernels.route import choose, sum_of_powers

Score = Callable[[ir.Value], ir.Value]
"""From a logit, or a vector of them, to the scores."""


def scored_route(op: ScoredRouteOp, lanes: int) -> Kernel:
    """Operands `logits [R, E]` and perhaps `biases [L, E]`, results `weights`, `experts` `[R, C]`.

    The scalar, where there are biases, is the layer, whose bias is taken.
    """
    by_sigmoid, normalised = bool(op.sigmoid.value), bool(op.normalised.value)
    scale, groups = op.scale.value, op.groups.value

    def build(
        numbers: ir.VectorType,
        row: ir.Value,
        extents: list[ir.Value],
        x: ir.Value,
        *others: ir.Value,
    ) -> None:
        *biases, weights, experts = others
        score = _score_by_sigmoid if by_sigmoid else _softmax(x, row, numbers)

        def sum_of(logits: ir.Value, at: ir.Value) -> ir.Value:
            total = score(logits)
            for each in biases:
                total = arith.addf(total, vector.load(numbers, each, [extents[-1], at]))
            return total

        sums = _made_of_row(x, row, numbers, sum_of)
        if groups > 1:
            leave_out_groups(op, sums)
        found = choose(numbers, sums, index(0), experts, row)
        chosen = [score(memref.load(x, [row, place])) for _, place in found]
        factor = constant(scale, chosen[0].type)
        if normalised:
            factor = arith.divf(factor, reduce(arith.addf, chosen))
        for rank, weight in enumerate(chosen):
            memref.store(arith.mulf(weight, factor), weights, [row, index(rank)])

    kind = "sigmoid" if by_sigmoid else "softmax"
    kind += "_normalised" if normalised else ""
    limits = (groups, op.kept_groups.value, op.best.value) if groups > 1 else ()
    name = f"scored_route_{kind}_{in_symbol(scale, *limits)}"
    return kernel_of_rows(name, op.logits.type, lanes, build)


def _made_of_row(
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


def _score_by_sigmoid(logit: ir.Value) -> ir.Value:
    return sigmoid(logit, _like(logit, constant(1.0, T.f32())))


def _softmax(x: ir.Value, row: ir.Value, numbers: ir.VectorType) -> Score:
    """The scores of a row of `x [R, E]`."""
    nowhere = constant(x.type.shape[1], T.i32())
    read, end = read_row(x, row, numbers), index(x.type.shape[1])
    most, _ = first_largest(read, index(0), end, numbers, nowhere)
    total = sum_of_powers(x, row, most)

    def score(logit: ir.Value) -> ir.Value:
        power = math.exp(arith.subf(logit, _like(logit, most)))
        return arith.divf(power, _like(logit, total))

    return score


def _like(logit: ir.Value, number: ir.Value) -> ir.Value:
    """`number`, or a vector of it where `logit` is one."""
    is_vector = isinstance(logit.type, ir.VectorType)
    return vector.broadcast(logit.type, number) if is_vector else number
