"""The kernels of `llmc.combine_experts`: rows times their weights, added up.

Where rows were put in order by experts, each is found by its number, as `take_rows` does.
"""

from collections.abc import Callable, Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith, memref, scf, vector

from llmc.dialects.divisor import divisor
from llmc.dialects.index_notation import constant, index
from llmc.pipelines.kernels.kernel import Kernel, load_index, multiply_add, workgroup_a_row

_WORKGROUPS = 4
"""Of one token, as many as a row is worth: the numbers are few and near."""


def combine_experts(out: ir.RankedTensorType, lanes: int) -> Kernel:
    """Operands `y [R * C, N]`, `weights [R, C]`, result `[R, N]`: a part of a row a workgroup."""
    rows, columns = out.shape
    width = divisor(columns, lanes)
    parts = divisor(columns // width, _WORKGROUPS)

    def build(
        part: ir.Value,
        row: ir.Value,
        _extents: list[ir.Value],
        y: ir.Value,
        weights: ir.Value,
        sums: ir.Value,
    ) -> None:
        begin = arith.muli(part, index(columns // parts))
        end = arith.addi(begin, index(columns // parts))
        _add_up(y, lambda own: own, weights, sums, row, (begin, end, width))

    return Kernel("combine_experts", lambda _: (parts, rows), build)


def combine_grouped_experts(out: ir.RankedTensorType, adds: bool, lanes: int) -> Kernel:
    """Operands `y [R * C, N]`, `place [R * C]`, `weights [R, C]`, result `[R, N]`, row by row.

    With `adds` the last operand is a residual `[R, N]`, which is added to the sums.
    """
    _, columns = out.shape
    width = divisor(columns, lanes)

    def build(
        row: ir.Value,
        _: ir.Value,
        _extents: list[ir.Value],
        y: ir.Value,
        place: ir.Value,
        weights: ir.Value,
        *residual_and_sums: ir.Value,
    ) -> None:
        *residual, sums = residual_and_sums
        ends = index(0), index(columns), width
        _add_up(y, lambda own: load_index(place, own), weights, sums, row, ends, residual)

    return Kernel("combine_grouped_experts", workgroup_a_row(out), build)


def _add_up(
    y: ir.Value,
    place: Callable[[ir.Value], ir.Value],
    weights: ir.Value,
    sums: ir.Value,
    row: ir.Value,
    columns: tuple[ir.Value, ir.Value, int],
    residual: Sequence[ir.Value] = (),
) -> None:
    """Computes a row of `sums` from the begin to the end of `columns`, so many at once.

    `place` says where in `y` a row is that is of this number among those that were chosen. What
    `residual` holds is added.
    """
    begin, end, width = columns
    _, chosen = weights.type.shape
    type_ = ir.VectorType.get([width], sums.type.element_type)
    numbers = [index(number) for number in range(chosen)]
    first = arith.muli(row, index(chosen))
    sources = [place(arith.addi(first, number)) for number in numbers]
    factors = [memref.load(weights, [row, number]) for number in numbers]
    for at in scf.for_(begin, end, index(width)):
        total = vector.broadcast(type_, constant(0.0, type_.element_type))
        for source, factor in zip(sources, factors, strict=True):
            read = vector.load(type_, y, [source, at])
            total = multiply_add(vector.broadcast(type_, factor), read, total)
        for added in residual:
            total = arith.addf(total, vector.load(type_, added, [row, at]))
        vector.store(total, sums, [row, at])
        scf.yield_([])
