"""`llmc_transform.one_workgroup`: has one workgroup compute what functions return."""

from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import ext, func, scf, tensor, transform

from llmc.pipelines.errors import fail
from llmc.pipelines.schedules.transform_ops.dialect import ModifiesPayload, Operation, Rewriting


class Interpretation(Rewriting):
    """What MLIR's interpreter does at the operation."""

    @staticmethod
    def rewrite(_op: Any, target: ir.Operation, _rewriter: transform.TransformRewriter) -> None:
        """Moves the body of a function into a grid."""
        (block,) = target.regions[0].blocks
        *body, end = [op.operation for op in block]
        if not all(_is_static(value.type) for value in end.operands):
            fail(target, "a kernel of one workgroup returns tensors of static size")
        with ir.InsertionPoint(end), end.location:
            rooms = [
                tensor.empty(value.type.shape, value.type.element_type) for value in end.operands
            ]
            grid = scf.ForallOp([0], [1], [1], rooms)
            with ir.InsertionPoint(grid.body):
                terminator = grid.terminator()
            for op in body:
                op.move_before(terminator.operation)
            with ir.InsertionPoint(terminator.block):
                for value, room in zip(end.operands, grid.inner_iter_args, strict=True):
                    _insert_whole(value, room)
            func.ReturnOp(list(grid.results))
        end.erase()


class OneWorkgroupOp(Operation, name="one_workgroup", traits=[Interpretation, ModifiesPayload]):
    """Has one workgroup compute what functions return: an scf.forall that runs once.

    "llmc_transform.one_workgroup"(%kernels) : (!transform.any_op) -> ()
    """

    target: ext.Operand[Any]


def _is_static(type_: ir.Type) -> bool:
    return isinstance(type_, ir.RankedTensorType) and type_.has_static_shape


def _insert_whole(value: ir.Value, room: ir.Value) -> None:
    shape = list(room.type.shape)
    zeros, ones = [0] * len(shape), [1] * len(shape)
    tensor.parallel_insert_slice(value, room, [], [], [], zeros, shape, ones)
