"""`fold-norm-weights`: moves the weight of a norm into the linear layers that follow."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from llmc.dialects import RMSNormOp, ScaleColumnsOp
from llmc.dialects.attributes import f64
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.recipes.recipe import recipe_of
from llmc.pipelines.rewriting.linear_fusion import LINEARS, Linear
from llmc.pipelines.rewriting.weight_expressions import is_used_once, stored_alike
from llmc.pipelines.walks import find


@dataclass(frozen=True)
class FoldNormWeights(Pass):
    """Scales the columns of linear layers instead of the `llmc.rms_norm` that they alone read.

    The norm is left without a weight; the archive stores the scaled weights. Linear layers with
    `transposed` weights (see `fold-transposes`) or weights that serve others keep their norm.
    Changes numerics: it is the product of the two weights that is rounded, to the type in which it
    is stored, not the product of activation and norm.
    """

    name: ClassVar[str] = "fold-norm-weights"

    def apply(self, module: ir.Module) -> None:
        """Folds the weight of every norm that allows it."""
        norms = [op.opview for op in find(module.operation, "llmc.rms_norm")]
        foldable = [norm for norm in norms if norm.weight is not None and _can_fold(norm)]
        for norm in stored_alike(
            module, foldable, lambda norm: [linear.weight for linear in _readers(norm)]
        ):
            _fold(norm)


def _can_fold(norm: RMSNormOp) -> bool:
    readers = _readers(norm)
    last = norm.x.type.rank - 1
    return (
        all(use.owner.name == "tensor.dim" or _is_input(use) for use in norm.out.uses)
        and all(not linear.transposed.value and is_used_once(linear.weight) for linear in readers)
        and all(_same_element(linear.weight, norm.weight) for linear in readers)
        and recipe_of(norm.weight) is not None
        and not norm.x.type.is_dynamic_dim(last)
    )


def _readers(norm: RMSNormOp) -> list[Linear]:
    return [use.owner for use in norm.out.uses if _is_input(use)]


def _is_input(use: ir.OpOperand) -> bool:
    return use.owner.name in LINEARS and use.operand_number == 0


def _same_element(weight: ir.Value, other: ir.Value) -> bool:
    return weight.type.element_type == other.type.element_type


def _fold(norm: RMSNormOp) -> None:
    for linear in _readers(norm):
        with ir.InsertionPoint(linear), linear.location:
            scaled = ScaleColumnsOp(linear.weight, norm.weight, norm.offset, linear.weight.type)
        position = list(linear.operands).index(linear.weight)
        linear.operands[position] = scaled.out
    with ir.InsertionPoint(norm), norm.location:
        plain = RMSNormOp(norm.x, norm.epsilon, f64(0.0), norm.out.type)
    norm.out.replace_all_uses_with(plain.out)
    norm.operation.erase()
