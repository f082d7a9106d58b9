"""`add-early`: adds first what is computed first."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import arith

from llmc.dialects.index_notation import letters, pointwise
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.generics import inputs, is_sum
from llmc.pipelines.walks import find


@dataclass(frozen=True)
class AddEarly(Pass):
    """Turns `(a + b) + c` into `a + (b + c)` where a is the last of the three to be computed.

    A layer whose attention and perceptron both read its hidden state adds the three at its end.
    What ends the attention can add the hidden state, which nothing needs then any longer when the
    last kernel writes the new one: see `persist-layers`. Changes numerics: the order of a sum.
    """

    name: ClassVar[str] = "add-early"
    idempotent: ClassVar[bool] = False  # for the sum within may then be one of such

    def apply(self, module: ir.Module) -> None:
        """Rewrites sum by sum, in order."""
        for op in find(module.operation, "linalg.generic"):
            if not is_sum(op):
                continue
            x, y = inputs(op)
            for inner, other in ((x, y), (y, x)):
                if _is_sum_for(inner, op):
                    _add_early(op, inner.owner.operation, other)
                    break


def _add_early(op: ir.Operation, inner: ir.Operation, other: ir.Value) -> None:
    """Rewrites `op`, the sum of the sum `inner` and of `other`, unless `other` comes last."""
    operations = [each.operation for each in op.block]

    def place(value: ir.Value) -> int:
        is_made_here = not isinstance(value.owner, ir.Block) and value.owner.operation in operations
        return operations.index(value.owner.operation) if is_made_here else -1

    *early, last = sorted([*inputs(inner), other], key=place)
    if last == other:
        return
    with ir.InsertionPoint(operations[place(early[-1]) + 1]), inner.location:
        first = _sum(*early)
    with ir.InsertionPoint(op), op.location:
        op.results[0].replace_all_uses_with(_sum(last, first))
    op.erase()
    inner.erase()


def _sum(x: ir.Value, y: ir.Value) -> ir.Value:
    loops = letters(x.type.rank)
    return pointwise(f"{loops},{loops}->{loops}", lambda x, y, _: arith.addf(x, y), x, y)


def _is_sum_for(value: ir.Value, op: ir.Operation) -> bool:
    """Whether `value` is a sum that `op` alone reads."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.operation.block != op.block:
        return False
    return is_sum(owner.operation) and len(list(value.uses)) == 1
