"""`llmc_transform.sum_apart`: lets sums of floats begin at zero."""

from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import ext, linalg, transform

from llmc.dialects.index_notation import filled, sizes
from llmc.pipelines.errors import fail
from llmc.pipelines.schedules.transform_ops.dialect import ModifiesPayload, Operation, Rewriting

CHAIN = 128
"""Terms of a sum of floats that are added one after the other, before others are.

Rounding errors grow with that number, and with that of such partial sums: Higham, Accuracy and
Stability of Numerical Algorithms, 4.2. Fewer cost time where partial sums are added.
"""


class Interpretation(Rewriting):
    """What MLIR's interpreter does at the operation."""

    @staticmethod
    def rewrite(_op: Any, target: ir.Operation, _rewriter: transform.TransformRewriter) -> None:
        """Lets the sums begin at zero, and adds what they began with."""
        if not _adds_floats(target):
            fail(target, "only sums of floats are made of partial ones here")
        *_, earlier = target.operands
        (own,) = target.results
        zeros = filled(sizes(earlier), 0.0, own.type.element_type)
        target.operands[len(target.operands) - 1] = zeros
        with ir.InsertionPoint.after(target):
            total = linalg.add(own, earlier, outs=[earlier])
        own.replace_all_uses_except(total, total.owner.operation)


class SumApartOp(Operation, name="sum_apart", traits=[Interpretation, ModifiesPayload]):
    """Lets linalg.generic operations that sum floats begin at zero, and adds what they began with.

    A sum that is tiled is thus made of partial ones.

        "llmc_transform.sum_apart"(%sums) : (!transform.any_op) -> ()
    """

    target: ext.Operand[Any]


def _adds_floats(op: ir.Operation) -> bool:
    """Whether all that a linalg.generic does with what was before is to add to it."""
    if op.name != "linalg.generic" or len(op.results) != 1:
        return False
    body = op.regions[0].blocks[0]
    *_, before = body.arguments
    total = list(body)[-1].operands[0].owner
    is_sum = not isinstance(total, ir.Block) and total.name == "arith.addf"
    return is_sum and [use.owner.operation for use in before.uses] == [total.operation]
