"""`fuse-residual-norm`: makes one operation of a residual addition and the norm that follows."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from llmc.dialects import AddRMSNormOp, RMSNormOp
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.generics import is_sum
from llmc.pipelines.rewriting.operations import ancestor_in
from llmc.pipelines.walks import find


@dataclass(frozen=True)
class FuseResidualNorm(Pass):
    """Turns `x + residual`, and the `llmc.rms_norm` of it, into `llmc.add_rms_norm`.

    The addition is a linalg.generic, as torch-mlir makes it, or `arith.addf`. The norm takes the
    addition along; where something in between needs the sum earlier, both stay as they are.
    """

    name: ClassVar[str] = "fuse-residual-norm"

    def apply(self, module: ir.Module) -> None:
        """Rewrites every norm of a sum."""
        for op in find(module.operation, "llmc.rms_norm"):
            norm = op.opview
            terms = _terms(norm.x)
            if terms and _is_first_use(op):
                _fuse(norm, *terms)


def _terms(value: ir.Value) -> tuple[ir.Value, ir.Value] | None:
    """The two tensors that `value` is the sum of, all three of one type."""
    if isinstance(value.owner, ir.Block):
        return None
    op = value.owner.operation
    if not is_sum(op) and op.name != "arith.addf":
        return None
    x, residual, *_ = op.operands
    return x, residual


def _is_first_use(norm: ir.Operation) -> bool:
    """Whether all else that uses what `norm` normalises comes after it, in the same block."""
    block, uses = norm.block, norm.opview.x.uses
    users = [ancestor_in(block, use.owner.operation) for use in uses]
    return norm.opview.x.owner.operation.block == block and all(
        user is None or user == norm or norm.is_before_in_block(user) for user in users
    )


def _fuse(norm: RMSNormOp, x: ir.Value, residual: ir.Value) -> None:
    addition = norm.x.owner
    with ir.InsertionPoint(norm), norm.location:
        type_ = norm.out.type
        fused = AddRMSNormOp(
            x, residual, norm.epsilon, norm.offset, type_, type_, weight=norm.weight
        )
    norm.out.replace_all_uses_with(fused.normed)
    norm.operation.erase()
    addition.results[0].replace_all_uses_with(fused.sum)
    addition.erase()
