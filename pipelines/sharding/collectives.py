"""Builds what moves tensors, and parts of them, between ranks: operations of the shard dialect."""

from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir.dialects import linalg, shard, tensor

from llmc.dialects.attributes import i64
from llmc.dialects.index_notation import Size, collapse, filled_up, sizes, slice_of
from llmc.pipelines.errors import fail
from llmc.pipelines.sharding.annotations import GRID
from llmc.pipelines.sharding.split import Layout, Range, Split, local_type

EVEN_PART = "llmc.part_along"
"""On a slice by which each rank along an axis of the grid takes its own of equal parts: that axis.

A rank's program could not tell otherwise what the others take.
"""

STARTED = "llmc.started"
"""On a collective that goes on while what stands before the first use of its result is computed."""


def mark_started(op: ir.Operation) -> None:
    """Says of the collective `op` that it goes on until its result is used."""
    op.attributes[STARTED] = ir.UnitAttr.get()


def grid_axes(axes: Sequence[int]) -> ir.Attribute:
    """The attribute that names axes of the grid, for which MLIR has no builder."""
    return ir.Attribute.parse(f"array<i16: {', '.join(map(str, axes))}>")


def axes_of(op: ir.Operation | ir.OpView) -> list[int]:
    """The axes of the grid that a collective is along."""
    named = str(op.attributes["grid_axes"]).partition(":")[2].rstrip(">").split(",")
    return [int(axis) for axis in named if axis.strip()]


def place_in(op: ir.Operation, attribute: str) -> int:
    """The place of a rank in its group that `attribute` states.

    PassError where it is computed, or the group is not along one axis.
    """
    places = list(ir.DenseI64ArrayAttr(op.attributes[attribute]))
    if len(places) != 1 or places[0] == ir.ShapedType.get_dynamic_size():
        fail(op, f"'{attribute}' must be one place, and a known one")
    return places[0]


def is_sum(op: ir.Operation | ir.OpView) -> bool:
    """Whether the collective `op` adds up, and does not take the largest value or the like."""
    return str(op.attributes["reduction"]) == "#shard<partial sum>"


def check_sum(op: ir.Operation) -> None:
    """PassError where the collective `op` reduces in a way for which ranks have no code."""
    if not is_sum(op):
        fail(op, "ranks can only add up, and f32 alone: this is another reduction")


def add_up(value: ir.Value, axes: list[int]) -> ir.Value:
    """The sum of the ranks' `value`s along the grid's `axes`, on each of them."""
    return shard.AllReduceOp(value.type, GRID, value, grid_axes=grid_axes(axes)).result


def all_gather(value: ir.Value, dim: int, ranks: int, axis: int) -> ir.Value:
    """The `value`s of the `ranks` along the grid's `axis`, side by side in dimension `dim`."""
    shape = list(value.type.shape)
    shape[dim] *= ranks
    type_ = ir.RankedTensorType.get(shape, value.type.element_type)
    return shard.AllGatherOp(type_, GRID, value, dim, grid_axes=grid_axes([axis])).result


def reduce_scatter(value: ir.Value, dim: int, ranks: int, axis: int) -> ir.Value:
    """This rank's part, in dimension `dim`, of the sum of the `value`s along the grid's `axis`."""
    shape = list(value.type.shape)
    shape[dim] //= ranks
    type_ = ir.RankedTensorType.get(shape, value.type.element_type)
    return shard.ReduceScatterOp(type_, GRID, value, dim, grid_axes=grid_axes([axis])).result


def count_parts(op: ir.Operation, whole: ir.Value, part: ir.Value, dim: int) -> int:
    """How many parts make up `whole` in dimension `dim`, of which the collective `op` has `part`.

    PassError where their types do not say it.
    """
    types = whole.type, part.type
    if any(type_.is_dynamic_dim(dim) or type_.shape[dim] == 0 for type_ in types):
        fail(op, f"parts have one length: dimension {dim} must be static, and not empty")
    return int(whole.type.shape[dim] // part.type.shape[dim])


def shift(value: ir.Value, by: int, axis: int) -> ir.Value:
    """What the rank `by` places before this one has, along the grid's `axis` as along a ring."""
    axes = grid_axes([axis])
    return shard.ShiftOp(value.type, GRID, value, axis, by, grid_axes=axes, rotate=True).result


def side_by_side(pieces: ir.Value, dim: int) -> ir.Value:
    """`pieces [ranks, ...]` side by side in dimension `dim` of the pieces."""
    extents = sizes(pieces)
    order = [*range(1, dim + 1), 0, *range(dim + 1, len(extents))]
    room = tensor.empty([extents[at] for at in order], pieces.type.element_type)
    turned = linalg.transpose(pieces, outs=[room], permutation=order).results[0]
    return collapse(turned, [1] * dim + [2] + [1] * (len(extents) - dim - 2))


def send(value: ir.Value, to: int, axis: int) -> None:
    """Hands `value` on to the rank at place `to` along the grid's `axis`."""
    shard.SendOp(value.type, GRID, value, [to], [], grid_axes=grid_axes([axis]))


def receive(type_: ir.Type, extents: list[Size], source: int, axis: int) -> ir.Value:
    """What the rank at place `source` along the grid's `axis` sends: a tensor of these extents."""
    room = tensor.empty(extents, type_.element_type)
    return shard.RecvOp(type_, GRID, room, [], grid_axes=grid_axes([axis]), source=[source]).result


def broadcast(value: ir.Value, root: int, axis: int) -> ir.Value:
    """The `value` of the rank at place `root` along the grid's `axis`, on all of them."""
    axes = grid_axes([axis])
    return shard.BroadcastOp(value.type, GRID, value, [root], [], grid_axes=axes).result


def converted(
    value: ir.Value, has: Layout, needs: Layout, type_: ir.Type, coordinates: Sequence[int]
) -> ir.Value:
    """`value`, this rank's part of a tensor of `type_` in layout `has`, in the layout `needs`."""
    kept = tuple(old if old == new else None for old, new in zip(has, needs, strict=True))
    for dim, (old, new) in enumerate(zip(has, needs, strict=True)):
        if old is not None and old != new:
            value = _gathered(value, dim, old)
    missing = tuple(None if old == new else new for old, new in zip(kept, needs, strict=True))
    return _part(value, missing, local_type(type_, needs, coordinates), coordinates)


def _gathered(value: ir.Value, dim: int, split: Split) -> ir.Value:
    """All of dimension `dim`, of which every rank has a part.

    Parts of different sizes are filled up to the largest, for ranks exchange as much as they get.
    """
    ranks = len(split.ranges)
    if split.is_even:
        return all_gather(value, dim, ranks, split.axis)
    most = max(end - begin for begin, end in split.ranges)
    pieces = all_gather(filled_up(value, dim, most), dim, ranks, split.axis)
    parts = [
        _range_of(pieces, dim, (rank * most + begin, rank * most + end))
        for rank, (begin, end) in enumerate(_own_ranges(split))
        if begin < end
    ]
    shape = list(value.type.shape)
    shape[dim] = split.extent
    type_ = ir.RankedTensorType.get(shape, value.type.element_type)
    return tensor.concat(type_, dim, parts)


def _own_ranges(split: Split) -> list[Range]:
    """What each rank has and no rank before it, counted from the start of its part."""
    covered, found = 0, []
    for begin, end in split.ranges:
        found.append((max(covered - begin, 0), end - begin))
        covered = max(covered, end)
    return found


def _range_of(value: ir.Value, dim: int, range_: Range) -> ir.Value:
    begin, end = range_
    extents = sizes(value)
    extents[dim] = end - begin
    offsets = [begin if other == dim else 0 for other in range(len(extents))]
    return slice_of(value, offsets, extents, extents)


def _part(value: ir.Value, layout: Layout, type_: ir.Type, coordinates: Sequence[int]) -> ir.Value:
    """This rank's part, of `type_`, of `value`, of which it has all."""
    if not any(layout):
        return value
    op = value.owner
    if not isinstance(op, ir.Block) and op.name in ("tensor.empty", "linalg.fill"):
        extents = sizes(value)
        local = [
            here if split else extent
            for here, split, extent in zip(type_.shape, layout, extents, strict=True)
        ]
        room = tensor.empty(local, type_.element_type)
        return room if op.name == "tensor.empty" else linalg.fill(op.operands[0], outs=[room])
    for dim, split in enumerate(layout):
        if split is not None:
            value = _range_of(value, dim, split.part(coordinates))
            if split.is_even:
                value.owner.attributes[EVEN_PART] = i64(split.axis)
    return value
