"""`group-expert-rows`: lets rows that chose the same expert share what is read of it."""

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from torch_mlir import ir
from torch_mlir.extras import types as T

from llmc.dialects import (
    CombineExpertsOp,
    CombineGroupedExpertsOp,
    GroupedExpertLinearOp,
    GroupedQuantizedExpertLinearOp,
    GroupRowsOp,
    PackedExpertLinearOp,
    PackedQuantizedExpertLinearOp,
    TakeRowsOp,
)
from llmc.dialects.attributes import i64
from llmc.dialects.index_notation import sizes
from llmc.dialects.linear_rows import apart, merged
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.generics import addition_to, inputs
from llmc.pipelines.rewriting.linear_epilogue import find_epilogue, no_epilogue
from llmc.pipelines.rewriting.linear_prologue import read_lengths_before
from llmc.pipelines.rewriting.operations import made_by
from llmc.pipelines.rewriting.purity import erase_unread
from llmc.pipelines.walks import find

Layer: TypeAlias = PackedExpertLinearOp | PackedQuantizedExpertLinearOp

_Groups: TypeAlias = "dict[tuple[ir.Value, int, ir.Block], GroupRowsOp]"
"""By the rows' experts, of how many, where."""

_LAYERS = ("llmc.packed_expert_linear", "llmc.packed_quantized_expert_linear")
_EXPERT = 1
"""The number of the operand of a layer that has an integer for each row of its result."""

_WEIGHTS = 1
"""That of the operand of `llmc.combine_experts` that has a row for each of its result."""


@dataclass(frozen=True)
class GroupExpertRows(Pass):
    """Turns packed layers over experts, on a dynamic number of rows, into their grouped forms.

    A static number of rows is one token's: its experts differ, and there is nothing to group. Rows
    are put in the order of the groups before a layer, and back after the elementwise operations
    that follow it; a layer on rows that were put back takes them as they lay, and so does
    `llmc.combine_experts`, which then adds a residual, too. Layers that follow the same choice
    share one `llmc.group_rows`.
    """

    name: ClassVar[str] = "group-expert-rows"

    def apply(self, module: ir.Module) -> None:
        """Rewrites every layer whose number of rows is dynamic."""
        groups: _Groups = {}
        for op in find(module.operation, *_LAYERS):
            if op.opview.out.type.is_dynamic_dim(0):
                _sort(op.opview, groups)
        for op in find(module.operation, "llmc.combine_experts"):
            _combine(op.opview)


def _groups(layer: Layer) -> GroupRowsOp:
    """The groups of the layer's rows, found here."""
    i32, (experts, *_) = T.i32(), layer.weight.type.shape
    order = ir.RankedTensorType.get(layer.expert.type.shape, i32)
    return GroupRowsOp(layer.expert, order, ir.RankedTensorType.get([experts + 1], i32), order)


def _sort(layer: Layer, groups: _Groups) -> None:
    """Multiplies rows in the order of their groups; `groups` has those that are known."""
    read_lengths_before(layer.operation, _EXPERT)
    epilogue = find_epilogue(layer.out)
    if epilogue.others():
        epilogue = no_epilogue(layer.out)
    with ir.InsertionPoint(layer), layer.location:
        key = layer.expert, layer.weight.type.shape[0], layer.operation.block
        if key not in groups:
            groups[key] = _groups(layer)
        group = groups[key]
        x = _sorted(layer, group)
        new = _grouped(layer, x, group)
    is_alone = epilogue.result == layer.out
    layer.out.replace_all_uses_with(new.out)
    result = new.out if is_alone else epilogue.result
    uses = list(result.uses)
    with ir.InsertionPoint.after(result.owner), layer.location:
        back = TakeRowsOp(group.place, result, i64(1), result.type).out
    for use in uses:
        use.owner.operation.operands[use.operand_number] = back
    layer.operation.erase()


def _combine(combine: CombineExpertsOp) -> None:
    """Adds up rows from where they lie, if they were put back for that."""
    put_back = made_by(combine.y, "llmc.take_rows")
    if put_back is None:
        return
    place, y = put_back.operands
    group = made_by(place, "llmc.group_rows")
    if group is None or place != group.opview.place:
        return
    _add_up(combine, y, place)


def _add_up(combine: CombineExpertsOp, y: ir.Value, place: ir.Value) -> None:
    """Adds up the rows `y` by their `place`, and a residual if that is all that is done then."""
    read_lengths_before(combine.operation, _WEIGHTS)
    sums, operands, type_ = _reshaped(combine.out), (y, place, combine.weights), combine.out.type
    addition = addition_to(sums)
    if addition is None:
        with ir.InsertionPoint(combine), combine.location:
            combine.out.replace_all_uses_with(CombineGroupedExpertsOp(*operands, type_).out)
    else:
        (residual,) = (value for value in inputs(addition) if value != sums)
        with ir.InsertionPoint(addition), addition.location:
            new = CombineGroupedExpertsOp(*operands, type_, residual=merged(residual))
            addition.results[0].replace_all_uses_with(apart(new.out, sizes(residual)[:-1]))
        addition.erase()
    erase_unread(combine.operation)


def _reshaped(rows: ir.Value) -> ir.Value:
    """What other operations read of `rows`: themselves, or a reshape that keeps each row."""
    users = [use.owner.operation for use in rows.uses]
    if [user.name for user in users] != ["tensor.expand_shape"]:
        return rows
    (reshape,) = users[0].results
    return reshape if reshape.type.shape[-1] == rows.type.shape[-1] else rows


def _grouped(
    layer: Layer, x: ir.Value, group: GroupRowsOp
) -> GroupedExpertLinearOp | GroupedQuantizedExpertLinearOp:
    """The layer on its rows `x` in the order of `group`."""
    operands = x, group.first, layer.weight
    if isinstance(layer, PackedQuantizedExpertLinearOp):
        return GroupedQuantizedExpertLinearOp(*operands, layer.format, layer.out.type)
    return GroupedExpertLinearOp(*operands, layer.out.type)


def _sorted(layer: Layer, group: GroupRowsOp) -> ir.Value:
    """The layer's rows, each as often as it has experts, in the order of the groups."""
    top_k, put_back = layer.top_k.value, made_by(layer.x, "llmc.take_rows")
    if put_back and top_k == 1 and put_back.operands[0] == group.place:
        return put_back.operands[1]
    _, width = layer.x.type.shape
    type_ = ir.RankedTensorType.get([layer.out.type.shape[0], width], layer.x.type.element_type)
    return TakeRowsOp(group.order, layer.x, layer.top_k, type_).out
