"""`llmc_transform.whole_rounds`: tells a loop that all its tiles are complete."""

from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import ext, scf, transform

from llmc.dialects.index_notation import index
from llmc.pipelines.schedules.transform_ops.dialect import ModifiesPayload, Operation, Rewriting
from llmc.pipelines.walks import find


class Interpretation(Rewriting):
    """What MLIR's interpreter does at the operation."""

    @staticmethod
    def rewrite(_op: Any, target: ir.Operation, rewriter: transform.TransformRewriter) -> None:
        """Replaces the sizes of tiles in a loop."""
        step = _constant(target.opview.step)
        for size in _sizes(target.opview, step):
            with ir.InsertionPoint(size), size.location:
                rewriter.replace_op(size, [index(step)])


class WholeRoundsOp(Operation, name="whole_rounds", traits=[Interpretation, ModifiesPayload]):
    """Tells a loop that was parted from its last round that every tile in it is complete.

    An affine.min of its variable and its step is the step. MLIR sees it in simple cases, and not
    where a loop runs over what another has left.

        "llmc_transform.whole_rounds"(%loop) : (!transform.any_op) -> ()
    """

    loop: ext.Operand[Any]


def _sizes(loop: scf.ForOp, step: int) -> list[ir.Operation]:
    """The sizes of tiles in a loop: the lesser of its step and what is left."""
    return [
        op
        for op in find(loop.operation, "affine.min")
        if loop.induction_variable in list(op.operands) and _has_result(op, step)
    ]


def _has_result(op: ir.Operation, value: int) -> bool:
    """Whether the number `value` is among what an affine.min is the least of."""
    results = ir.AffineMapAttr(op.attributes["map"]).value.results
    return any(isinstance(e, ir.AffineConstantExpr) and e.value == value for e in results)


def _constant(value: ir.Value) -> int:
    return ir.IntegerAttr(value.owner.attributes["value"]).value
