"""`outline-rows`: makes kernels of what is done to one row between other kernels, as norms are."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.functions import functions
from llmc.pipelines.rewriting.kernel_functions import KernelFunctions
from llmc.pipelines.rewriting.kernel_operands import KernelOperands, Reader, stack_and_number
from llmc.pipelines.rewriting.layers import LAYER
from llmc.pipelines.rewriting.row_expressions import RowExpression, row_results
from llmc.pipelines.rewriting.row_forms import as_loops, cut_row, from_loops, part_of_row, row_form

ROW, ROWS = "row", "rows"


@dataclass(frozen=True)
class OutlineRows(Pass):
    """Turns elementwise operations and reductions of rows into calls of kernels.

    Each row that other operations read is one `row` kernel, which computes all that it needs from
    rows that are there: a norm, a residual that is added to a norm, and so on. Several rows, as
    many as tokens or sequences, are one `rows` kernel where they stand between kernels. It is so in
    numbered layer functions, of which `persist-layers` makes one kernel where they are nothing but
    kernels. Rows hold f32. What is read no more is left for others to remove.
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

        kind = ROWS if expression.is_several else ROW
        (result,) = kernels.call(kind, operands.values, build)
        row.replace_all_uses_with(from_loops(result, row.type))


def _read(operands: KernelOperands, leaf: ir.Value) -> Reader:
    """How the kernel reads a leaf by its loops: a part of a row from all of it."""
    row, start = part_of_row(leaf)
    _, number = stack_and_number(row)
    read = operands.read(as_loops(row) if number is None else row)
    if row == leaf:
        return lambda arguments: as_loops(read(arguments))
    return lambda arguments: cut_row(read(arguments), start, row_form(leaf).length)
