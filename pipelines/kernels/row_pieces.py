"""Rows in vectors that do not overlap: the last of them is shorter where the row is no multiple."""

from collections.abc import Callable

from torch_mlir import ir
from torch_mlir.dialects import arith, scf

from llmc.dialects.index_notation import index
from llmc.pipelines.kernels.splat import splat
from llmc.pipelines.kernels.vectors import total

Piece = Callable[[ir.VectorType, ir.Value], ir.Value]
"""From the type of a vector and where it begins to what is there."""


def sum_of_row(columns: int, numbers: ir.VectorType, read: Piece) -> ir.Value:
    """The sum of what `read` gives of a row of `columns`, in vectors of the type `numbers`."""
    whole, left = _split(columns, numbers)
    width = index(numbers.shape[0])
    loop = scf.ForOp(index(0), index(whole), width, [splat(0.0, numbers)])
    with ir.InsertionPoint(loop.body):
        found = read(numbers, loop.induction_variable)
        scf.yield_([arith.addf(loop.inner_iter_args[0], found)])
    sum_ = total(loop.result)
    return sum_ if left is None else arith.addf(sum_, total(read(left, index(whole))))


def each_piece(
    columns: int, numbers: ir.VectorType, visit: Callable[[ir.VectorType, ir.Value], None]
) -> None:
    """Visits all of a row of `columns`, in vectors of the type `numbers`."""
    whole, left = _split(columns, numbers)
    for at in scf.for_(index(0), index(whole), index(numbers.shape[0])):
        visit(numbers, at)
        scf.yield_([])
    if left is not None:
        visit(left, index(whole))


def _split(columns: int, numbers: ir.VectorType) -> tuple[int, ir.VectorType | None]:
    """Where the last whole vector ends, and the type of what is left, if there is anything."""
    left = columns % numbers.shape[0]
    type_ = ir.VectorType.get([left], numbers.element_type) if left else None
    return columns - left, type_
