"""`llmc_transform.workgroup_for_each_row`: has a workgroup compute each row of a function."""

from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import ext, func, scf, tensor, transform

from llmc.dialects.index_notation import part, size
from llmc.pipelines.errors import fail
from llmc.pipelines.schedules.transform_ops.dialect import ModifiesPayload, Operation, Rewriting
from llmc.pipelines.several_rows import has_rows, one_row


class Interpretation(Rewriting):
    """What MLIR's interpreter does at the operation."""

    @staticmethod
    def rewrite(_op: Any, target: ir.Operation, _rewriter: transform.TransformRewriter) -> None:
        """Moves the body of a function into a grid, where there is one row of each argument."""
        (block,) = target.regions[0].blocks
        *body, end = [op.operation for op in block]
        tables = [argument for argument in block.arguments if has_rows(argument.type)]
        if not tables or not all(has_rows(value.type) for value in end.operands):
            fail(target, "a kernel of rows reads and returns tensors whose first extent is open")
        uses = [(table, use) for table in tables for use in table.uses]
        with ir.InsertionPoint(end), end.location:
            count = size(tables[0], 0)
            rooms = [
                tensor.empty([count, *value.type.shape[1:]], value.type.element_type)
                for value in end.operands
            ]
            grid = scf.ForallOp([0], [count], [1], rooms)
            with ir.InsertionPoint(grid.body):
                terminator = grid.terminator()
            with ir.InsertionPoint(terminator.operation):
                (row,) = grid.induction_variables
                alone = {table: tensor.cast(table.type, part(table, row, 1)) for table in tables}
                for table, use in uses:
                    use.owner.operation.operands[use.operand_number] = alone[table]
                for op in body:
                    op.move_before(terminator.operation)
                    if op.name == "tensor.concat":
                        _put_one_together(op)
                results = [tensor.cast(one_row(value.type), value) for value in end.operands]
            with ir.InsertionPoint(terminator.block):
                for value, room in zip(results, grid.inner_iter_args, strict=True):
                    _insert_row(value, room, row)
            func.ReturnOp(list(grid.results))
        end.erase()


class WorkgroupForEachRowOp(
    Operation, name="workgroup_for_each_row", traits=[Interpretation, ModifiesPayload]
):
    """Has a workgroup compute each row of what functions return, from that row of what they read.

    What a function computes is of no row but one's own. Extents are simplified by others: within
    the grid that of rows is 1.

    "llmc_transform.workgroup_for_each_row"(%kernels) : (!transform.any_op) -> ()
    """

    target: ext.Operand[Any]


def _put_one_together(concat: ir.Operation) -> None:
    """Gives a concatenation the extent of one row, which MLIR's canonicalisation does not."""
    with ir.InsertionPoint(concat), concat.location:
        parts = [tensor.cast(one_row(part.type), part) for part in concat.operands]
        type_ = concat.results[0].type
        whole = tensor.concat(one_row(type_), concat.opview.dim, parts)
        concat.results[0].replace_all_uses_with(tensor.cast(type_, whole))
    concat.erase()


def _insert_row(value: ir.Value, room: ir.Value, row: ir.Value) -> None:
    shape = list(value.type.shape)
    offsets = [ir.ShapedType.get_dynamic_stride_or_offset(), *[0] * (len(shape) - 1)]
    tensor.parallel_insert_slice(value, room, [row], [], [], offsets, shape, [1] * len(shape))
