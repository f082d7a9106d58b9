"""`llmc_transform.read_by`: what an input of an operation is computed by."""

from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import ext, transform

from llmc.pipelines.errors import fail
from llmc.pipelines.schedules.transform_ops.dialect import OnlyReads, Operation, Rewriting
from llmc.pipelines.walks import walk


class Interpretation(Rewriting):
    """What MLIR's interpreter does at the operation."""

    @staticmethod
    def rewrite(
        op: Any, target: ir.Operation, _rewriter: transform.TransformRewriter
    ) -> list[ir.Operation]:
        """Finds them, and changes nothing."""
        if not 0 <= op.number.value < len(target.operands):
            fail(target, f"there is no input number {op.number.value} to be read by")
        makers = _makers(target.operands[op.number.value])
        return [maker for maker in makers if _is_elementwise(maker, op.loops.value)]


class ReadByOp(Operation, name="read_by", traits=[Interpretation, OnlyReads]):
    """The elementwise linalg.generic operations, of so many loops, that an input is computed by.

    These are what makes it, and what makes what that reads, through reshapes and loops; each is
    there once.

        %before = "llmc_transform.read_by"(%products) {number = 0 : i64, loops = 3 : i64}
                : (!transform.any_op) -> !transform.any_op
    """

    target: ext.Operand[Any]
    number: ir.IntegerAttr
    loops: ir.IntegerAttr
    before: ext.Result[Any]


def _makers(value: ir.Value) -> list[ir.Operation]:
    """The operations that `value` is computed by, the last first."""
    found: dict[ir.Operation, None] = {}
    pending = [value]
    while pending:
        owner = pending.pop().owner
        if not isinstance(owner, ir.Block) and owner.operation not in found:
            found[owner.operation] = None
            for op in (owner.operation, *walk(owner.operation)):
                pending += op.operands
    return list(found)


def _is_elementwise(op: ir.Operation, loops: int) -> bool:
    if op.name != "linalg.generic":
        return False
    kinds = [str(kind) for kind in op.attributes["iterator_types"]]
    return len(kinds) == loops and not any("reduction" in kind for kind in kinds)
