"""The usual way to split a transformer: heads and hidden units, and then what reads them.

The weights that compute the heads of attention, and the hidden units between two linear layers, are
split by outputs; propagation then splits what reads them by inputs, which takes one sum over the
ranks after attention and one after the MLP. Where all is split by outputs, activations are gathered
before and after what would be split by inputs, and every number is as it is on one device. The
embedding and the head are split by tokens.
Shoeybi et al., "Megatron-LM", 2019.
"""

from fractions import Fraction

from torch_mlir import ir
from torch_mlir.dialects import func

from llmc.dialects import AttentionOp, EmbeddingOp, ExpertLinearOp, LinearOp
from llmc.dialects.parameter import stored_unit
from llmc.pipelines.recipes.recipe import recipe_of
from llmc.pipelines.sharding.rules import is_free, rule_of
from llmc.pipelines.sharding.split import Split, even_split, split_heads
from llmc.runtime.manifest import Axis

BLOCK = 32
"""What parts are made of: values of 4 bits are stored by 32, and so are those of 8."""

Cuts = dict[ir.Value, tuple[int, Split]]
"""Weights, with the dimension that is split and how."""


def usual_cuts(function: func.FuncOp, axis: Axis, number: int, *, is_trunk: bool) -> Cuts:
    """What is split along `axis`, the grid's `number`: by experts along ep, Megatron's along tp.

    ValueError where there are too many ranks.
    """
    if axis.name == "ep":
        return cut_experts(function, number, axis.size)
    if axis.name != "tp":
        return {}
    return (cut_vocabulary if is_trunk else cut_like_megatron)(function, number, axis.size)


def cut_like_megatron(function: func.FuncOp, axis: int, ranks: int) -> Cuts:
    """The weights of `function` that are to be split along the grid's `axis` of `ranks` ranks.

    ValueError where there are fewer heads than ranks.
    """
    cuts: Cuts = {}
    ops = [op.opview for op in function.entry_block]
    for op in ops:
        if isinstance(op, AttentionOp):
            cuts.update(_heads(op, axis, ranks))
    for op in ops:
        if isinstance(op, LinearOp | ExpertLinearOp):
            for value, cut in _hidden_units(op, axis, ranks).items():
                cuts.setdefault(value, cut)
    return cuts


def cut_outputs(function: func.FuncOp, axis: int, ranks: int) -> Cuts:
    """The weights of linear layers in `function`, split by outputs.

    But of those with few outputs, such as what chooses experts.
    """
    cuts: Cuts = {}
    for op in function.entry_block:
        view = op.opview
        if isinstance(view, LinearOp | ExpertLinearOp) and recipe_of(view.weight) is not None:
            dim = view.weight.type.rank - (1 if view.transposed.value else 2)
            extent = view.weight.type.shape[dim]
            if extent >= BLOCK * ranks:
                cuts[view.weight] = dim, _even(axis, ranks, extent, BLOCK)
    return cuts


def cut_vocabulary(function: func.FuncOp, axis: int, ranks: int) -> Cuts:
    """The embedding and the head of the trunk `function`, split by tokens."""
    cuts: Cuts = {}
    for op in function.entry_block:
        view = op.opview
        if isinstance(view, EmbeddingOp) and recipe_of(view.table) is not None:
            cuts[view.table] = 0, _even(axis, ranks, view.table.type.shape[0], 1)
        elif isinstance(view, LinearOp) and recipe_of(view.weight) is not None:
            dim = 1 if view.transposed.value else 0
            extent = view.weight.type.shape[dim]
            cuts[view.weight] = dim, _even(axis, ranks, extent, 1)
    return cuts


def cut_experts(function: func.FuncOp, axis: int, ranks: int) -> Cuts:
    """The experts of `function`, some of which each rank has."""
    return {
        op.opview.weight: (0, even_split(axis, ranks, op.opview.weight.type.shape[0]))
        for op in function.entry_block
        if isinstance(op.opview, ExpertLinearOp)
    }


def _heads(op: AttentionOp, axis: int, ranks: int) -> Cuts:
    """The weights that compute the heads; none where something stands between."""
    heads, groups = op.query.type.shape[1], op.key.type.shape[1]
    split = split_heads(axis, ranks, heads, groups)
    of_groups = split.times(Fraction(groups, heads))
    found = [
        _weights_behind(value, 1, each)
        for value, each in ((op.query, split), (op.key, of_groups), (op.value, of_groups))
    ]
    return {} if None in found else {k: v for cuts in found for k, v in (cuts or {}).items()}


def _hidden_units(op: LinearOp | ExpertLinearOp, axis: int, ranks: int) -> Cuts:
    """The weights that compute what `op` reads, where these are hidden units."""
    extent = op.x.type.shape[-1]
    split = _even(axis, ranks, extent, max(BLOCK, stored_unit(op.weight)))
    return _weights_behind(op.x, op.x.type.rank - 1, split) or {}


def _even(axis: int, ranks: int, extent: int, unit: int) -> Split:
    """As even as whole units allow, or single elements where there are too few of these."""
    try:
        return even_split(axis, ranks, extent, unit)
    except ValueError:
        return even_split(axis, ranks, extent)


def _weights_behind(value: ir.Value, dim: int, split: Split) -> Cuts | None:
    """The weights to split so that dimension `dim` of `value` is computed in parts.

    None where no weights do that.
    """
    op = value.owner
    if isinstance(op, ir.Block):
        return None
    if recipe_of(value) is not None:
        return {value: (dim, split)}
    if is_free(op):
        return {}
    rule = None if isinstance(op.opview, AttentionOp) else rule_of(op)
    made = rule.results[ir.OpResult(value).result_number][dim] if rule else None
    if rule is None or made is None:
        return None
    letters = split.times(1 / made.ratio)
    if letters.times(made.ratio) != split:
        return None
    found: Cuts = {}
    for operand, dims in zip(op.operands, rule.operands, strict=True):
        for number, each in enumerate(dims):
            if each is None or each.letter != made.letter:
                continue
            behind = _weights_behind(operand, number, letters.times(each.ratio))
            if behind is None:
                return None
            found.update(behind)
    return found
