"""What fusions of linear layers share: the layers behind a value, and making one of several."""

from collections.abc import Sequence
from functools import reduce
from typing import TypeAlias

from torch_mlir import ir
from torch_mlir.dialects import tensor

from llmc.dialects import ExpertLinearOp, LinearOp
from llmc.dialects.block_types import StoredType
from llmc.dialects.index_notation import sizes, slice_of
from llmc.pipelines.recipes.recipe import recipe_of
from llmc.pipelines.rewriting.weight_expressions import (
    hoist,
    is_used_once,
    stored_alike,
    stored_format,
)

Linear: TypeAlias = LinearOp | ExpertLinearOp

LINEARS = ("llmc.linear", "llmc.expert_linear")


def linears_behind(*values: ir.Value) -> list[Linear]:
    """The linear layers that `values` are computed from, with no other in between."""
    found, seen, pending = [], set(), [*reversed(values)]
    while pending:
        value = pending.pop()
        if value in seen or isinstance(value.owner, ir.Block):
            continue
        seen.add(value)
        if value.owner.name in LINEARS:
            found.append(value.owner)
        else:
            pending += filter(_holds_numbers, reversed(list(value.owner.operands)))
    return found


def fuse_all(module: ir.Module, groups: Sequence[Sequence[Linear]]) -> None:
    """Fuses the groups of linear layers that can be, each layer once.

    They have the same activations (and experts), and weights that are weight expressions for them
    alone, stored as blocks of one format or as numbers; all have a bias, which is one too, or none.
    """
    taken: set[ir.Operation] = set()
    fusible = []
    for group in groups:
        operations = {linear.operation for linear in group}
        if len(group) > 1 and not operations & taken and _can_fuse(group):
            taken |= operations
            fusible.append(group)
    for group in stored_alike(module, fusible, lambda group: [each.weight for each in group]):
        _fuse(group)


def _can_fuse(linears: Sequence[Linear]) -> bool:
    first = linears[0]
    return all(
        type(linear) is type(first)
        and linear.operation.block == first.operation.block
        and _others(linear) == _others(first)
        and linear.attributes["transposed"] == first.attributes["transposed"]
        and linear.weight.type.element_type == first.weight.type.element_type
        and is_used_once(linear.weight)
        and stored_format(linear.weight) == stored_format(first.weight)
        and (_bias(linear) is None) == (_bias(first) is None)
        and (_bias(linear) is None or recipe_of(_bias(linear)) is not None)
        for linear in linears
    )


def _others(linear: Linear) -> list[ir.Value | ir.Attribute]:
    """What decides the result beside weight and bias."""
    if isinstance(linear, ExpertLinearOp):
        return [linear.x, linear.expert, linear.top_k]
    return [linear.x]


def _bias(linear: Linear) -> ir.Value | None:
    return None if isinstance(linear, ExpertLinearOp) else linear.bias


def _output_dim(linear: Linear) -> int:
    """The dimension of the weight that counts outputs."""
    return linear.weight.type.rank - (1 if linear.transposed.value else 2)


def _fuse(linears: Sequence[Linear]) -> None:
    """One linear layer in the place of the first one; its result is cut up for the users."""
    operations = [linear.operation for linear in linears]
    first = reduce(lambda a, b: a if a.is_before_in_block(b) else b, operations)
    for linear in linears:
        hoist(linear.weight, first)
        if _bias(linear) is not None:
            hoist(_bias(linear), first)
    outputs = [linear.weight.type.shape[_output_dim(linear)] for linear in linears]
    with ir.InsertionPoint(first), first.location:
        fused = _fused(linears, sum(outputs))
        *leading, _ = sizes(fused)
        offset = 0
        for linear, count in zip(linears, outputs, strict=True):
            extents = [*leading, count]
            part = slice_of(fused, [*[0] * len(leading), offset], extents, extents)
            if part.type != linear.out.type:  # in what is dynamic
                part = tensor.cast(linear.out.type, part)
            linear.out.replace_all_uses_with(part)
            offset += count
    for operation in operations:
        operation.erase()


def _fused(linears: Sequence[Linear], outputs: int) -> ir.Value:
    first = linears[0]
    weight = _concatenated([linear.weight for linear in linears], _output_dim(first))
    type_ = ir.RankedTensorType.get(
        [*first.out.type.shape[:-1], outputs], first.out.type.element_type
    )
    if isinstance(first, ExpertLinearOp):
        return ExpertLinearOp(
            first.x, first.expert, weight, first.top_k, first.transposed, type_
        ).out
    biases = [linear.bias for linear in linears if linear.bias is not None]
    bias = _concatenated(biases, 0) if biases else None
    return LinearOp(first.x, weight, first.transposed, type_, bias=bias).out


def _concatenated(parts: Sequence[ir.Value], dim: int) -> ir.Value:
    shape = list(parts[0].type.shape)
    shape[dim] = sum(part.type.shape[dim] for part in parts)
    type_ = ir.RankedTensorType.get(shape, parts[0].type.element_type)
    return tensor.concat(type_, dim, parts)


def _holds_numbers(value: ir.Value) -> bool:
    """Whether it is a tensor of floats, or of what is stored as bytes, as a cache of cells is."""
    type_ = value.type
    numbers = (ir.FloatType, StoredType)
    return isinstance(type_, ir.RankedTensorType) and isinstance(type_.element_type, numbers)
