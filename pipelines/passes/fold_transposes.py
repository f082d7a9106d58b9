"""`fold-transposes`: moves transpositions of weights to where the archive is written."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import linalg, tensor

from llmc.dialects.attributes import i64
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.recipes.recipe import recipe_of
from llmc.pipelines.rewriting.generics import maps
from llmc.pipelines.rewriting.linear_fusion import LINEARS, Linear
from llmc.pipelines.rewriting.operations import is_used, made_by
from llmc.pipelines.rewriting.weight_expressions import is_used_once, stored_alike
from llmc.pipelines.walks import find


@dataclass(frozen=True)
class FoldTransposes(Pass):
    """Turns linear layers with `transposed` weights into ones over `linalg.transpose` of them.

    That is a weight expression, which the archive stores: later passes have one kind of linear
    layer to deal with. Any `linalg.generic` that merely transposes a weight becomes
    `linalg.transpose` too, and transpositions of transpositions become one or none. Weights that
    serve others keep their form.
    """

    name: ClassVar[str] = "fold-transposes"

    def apply(self, module: ir.Module) -> None:
        """Rewrites every transposition of a weight, then the linear layers."""
        for op in find(module.operation, "linalg.generic"):
            permutation = _transposes(op)
            if permutation and recipe_of(op.operands[0]):
                _replace(op, op.operands[0], permutation)
        linears = [op.opview for op in find(module.operation, *LINEARS)]
        transposed = [
            linear for linear in linears if linear.transposed.value and is_used_once(linear.weight)
        ]
        for linear in stored_alike(module, transposed, lambda linear: [linear.weight]):
            _turn(linear)
        for op in find(module.operation, "linalg.transpose"):
            if recipe_of(op.operands[0]):
                _merge(op)


def _turn(linear: Linear) -> None:
    weight = linear.weight
    *rest, inputs, outputs = range(weight.type.rank)
    position = list(linear.operands).index(weight)
    with ir.InsertionPoint(linear), linear.location:
        linear.operands[position] = _transpose(weight, [*rest, outputs, inputs])
    linear.attributes["transposed"] = i64(0)


def _merge(op: ir.Operation) -> None:
    """Makes of `op`, and of the transposition that it transposes, one."""
    permutation = list(op.opview.permutation)
    if inner := made_by(op.operands[0], "linalg.transpose"):
        merged = [inner.opview.permutation[dim] for dim in permutation]
        _replace(op, inner.operands[0], merged)
        if not is_used(inner):
            inner.erase()
    elif permutation == sorted(permutation):
        _replace(op, op.operands[0], permutation)


def _replace(op: ir.Operation, weight: ir.Value, permutation: list[int]) -> None:
    """Puts `weight`, its dimensions in the order `permutation`, in the place of `op`'s result."""
    with ir.InsertionPoint(op), op.location:
        same = permutation == sorted(permutation)
        value = weight if same else _transpose(weight, permutation)
        if value.type != op.results[0].type:  # in what is dynamic
            value = tensor.cast(op.results[0].type, value)
    op.results[0].replace_all_uses_with(value)
    op.erase()


def _transpose(weight: ir.Value, permutation: list[int]) -> ir.Value:
    shape = [weight.type.shape[dim] for dim in permutation]
    room = tensor.empty(shape, weight.type.element_type)
    return linalg.transpose(weight, outs=[room], permutation=permutation).results[0]


def _transposes(generic: ir.Operation) -> list[int]:
    """The permutation that `generic` makes of its operand's dimensions; nothing if it does more."""
    loops, body = maps(generic), generic.regions[0].blocks[0]
    if (
        len(loops) != 2
        or len(generic.results) != 1
        or not all(map_.is_permutation for map_ in loops)
        or len(body.operations) != 1
        or body.operations[0].operands[0] != body.arguments[0]
    ):
        return []
    source, result = ([ir.AffineDimExpr(dim).position for dim in map_.results] for map_ in loops)
    return [source.index(loop) for loop in result]
