"""`outline-rows`: makes kernels of what is done to one row between other kernels, as norms are."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from llmc.dialects.index_notation import slice_of
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.functions import functions
from llmc.pipelines.rewriting.kernel_functions import KernelFunctions
from llmc.pipelines.rewriting.kernel_operands import KernelOperands, Reader
from llmc.pipelines.rewriting.layers import LAYER
from llmc.pipelines.rewriting.row_expressions import (
    RowExpression,
    as_vector,
    length_of,
    part_of_row,
    reshaped,
    row_results,
)

ROW = "row"


@dataclass(frozen=True)
class OutlineRows(Pass):
    """Turns elementwise operations and reductions of one row into calls of kernels.

    Each row that other operations read is one `row` kernel, which computes all that it needs from
    rows that are there: a norm, a residual that is added to a norm, and so on. It is so in numbered
    layer functions, of which `persist-layers` makes one kernel where they are nothing but kernels.
    Rows hold f32. What is read no more is left for others to remove.
    """

    name: ClassVar[str] = "outline-rows"

    def apply(self, module: ir.Module) -> None:
        """Outlines row by row."""
        kernels = KernelFunctions(module)
        for function in functions(module):
            if LAYER in function.attributes:
                for row in row_results(function.entry_block):
                    _outline(row, kernels)


def _outline(row: ir.Value, kernels: KernelFunctions) -> None:
    """Replaces `row` by what a kernel computes."""
    with ir.InsertionPoint(row.owner), row.owner.location:
        operands, expression = KernelOperands(), RowExpression(row)
        readers = {leaf: _read(operands, leaf) for leaf in expression.leaves}

        def build(*arguments: ir.Value) -> list[ir.Value]:
            return [expression.build({leaf: read(arguments) for leaf, read in readers.items()})]

        (result,) = kernels.call(ROW, operands.values, build)
        row.replace_all_uses_with(reshaped(result, row.type))


def _read(operands: KernelOperands, leaf: ir.Value) -> Reader:
    """How the kernel reads a leaf as a vector: a part of a row from all of it."""
    row, start = part_of_row(leaf)
    # One element of a stack's row is read as such, too.
    read = operands.read(row if row.type.rank == 1 else as_vector(row))
    if row == leaf:
        return lambda arguments: as_vector(read(arguments))
    length = length_of(leaf.type)
    shape = [] if length == 1 else [length]
    return lambda arguments: slice_of(read(arguments), [start], [length], shape)
