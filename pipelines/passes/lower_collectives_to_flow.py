"""`lower-collectives-to-flow`: collectives become IREE's, which a GPU's driver runs (NCCL)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import linalg, tensor
from torch_mlir.extras import types as T

from llmc.dialects.attributes import i32
from llmc.dialects.index_notation import Size, constant, expand, index, sizes
from llmc.pipelines.errors import fail
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.sharding.annotations import grid_of, rank_of, remove_unused_grid
from llmc.pipelines.sharding.collectives import (
    axes_of,
    check_sum,
    count_parts,
    place_in,
    side_by_side,
)
from llmc.pipelines.walks import find
from llmc.runtime.ranks.grid import Grid

# IREE's numbers of an element type and of a reduction.
_F32 = 9
_SUM = 1


@dataclass(frozen=True)
class LowerCollectivesToFlow(Pass):
    """Turns `shard.all_reduce` and so on into `flow.collective` on a channel of the ranks' group.

    IREE's dialects are unknown to this MLIR: their operations are built unregistered and print in
    the generic form, which IREE reads. A broadcast is a sum to which all but its root add zeros. A
    grid that nothing names any more is removed.

        %c = "flow.channel.split"(%all, %color, %key)
           : (!flow.channel, index, index) -> !flow.channel
        %y = "flow.collective.all_reduce"(%room, %x, %c) {...}
           : (tensor<1x64xf32>, tensor<1x64xf32>, !flow.channel) -> tensor<1x64xf32>
    """

    name: ClassVar[str] = "lower-collectives-to-flow"

    def apply(self, module: ir.Module) -> None:
        """Lowers every collective. PassError for one that cannot be."""
        grid = grid_of(module)
        if grid is None:
            return
        module.context.allow_unregistered_dialects = True
        group = _Group(grid, rank_of(module, grid))
        for op in find(module.operation, *_LOWERINGS):
            if not isinstance(op.operands[0].type.element_type, ir.F32Type):
                fail(op, "between GPUs only f32 can be moved")
            with ir.InsertionPoint(op), op.location:
                value = _LOWERINGS[op.name](group, op)
            op.results[0].replace_all_uses_with(value)
            op.erase()
        for op in find(module.operation, "shard.send", "shard.recv"):
            fail(op, "IREE drops what is sent and not returned: GPUs take no pp")
        for op in find(module.operation, "shard.reduce_scatter", "shard.shift"):
            fail(op, f"'{op.name}' is for CPUs alone: split the weights for GPUs in another way")
        remove_unused_grid(module)


@dataclass(frozen=True)
class _Group:
    """Builds the channels of the groups of ranks that `rank` belongs to."""

    grid: Grid
    rank: int

    def channel(self, op: ir.Operation) -> ir.Value:
        """The channel of the ranks that differ from this one along the axes of `op` alone."""
        type_ = ir.Type.parse("!flow.channel")
        members = self.grid.group(self.rank, sum(1 << axis for axis in axes_of(op)))
        everyone = ir.Operation.create("flow.channel.default", results=[type_]).result
        if len(members) == self.grid.size:
            return everyone
        color, key = index(members[0]), index(members.index(self.rank))
        split = ir.Operation.create(
            "flow.channel.split", results=[type_], operands=[everyone, color, key]
        )
        return split.result

    def is_at(self, op: ir.Operation, place: int) -> bool:
        """Whether this rank has the `place` along the axes of `op`."""
        members = self.grid.group(self.rank, sum(1 << axis for axis in axes_of(op)))
        return members.index(self.rank) == place


def _collective(
    name: str,
    extents: list[Size],
    x: ir.Value,
    channel: ir.Value,
    **attributes: ir.Attribute,
) -> ir.Value:
    """`flow.collective.<name>` of the f32 `x` on `channel`, which makes a tensor of `extents`."""
    room = tensor.empty(extents, x.type.element_type)
    open_extents = [extent for extent in extents if not isinstance(extent, int)]
    return ir.Operation.create(
        f"flow.collective.{name}",
        results=[room.type],
        operands=[room, *open_extents, x, channel],
        attributes={
            "element_type": i32(_F32),
            "tied_operands": ir.ArrayAttr.get([ir.IntegerAttr.get(T.index(), 0)]),
            **attributes,
        },
    ).result


def _all_reduce(group: _Group, op: ir.Operation) -> ir.Value:
    check_sum(op)
    (x,) = op.operands
    return _sum(x, group.channel(op))


def _sum(x: ir.Value, channel: ir.Value) -> ir.Value:
    return _collective("all_reduce", sizes(x), x, channel, reduction_op=i32(_SUM))


def _all_gather(group: _Group, op: ir.Operation) -> ir.Value:
    """IREE gathers in the outermost dimension: a new one, from which pieces go to their places."""
    (x,) = op.operands
    dim = op.opview.gather_axis.value
    extents = sizes(x)
    ranks = count_parts(op, op.results[0], x, dim)
    piece = expand(x, [[1, extents[0]], *[[extent] for extent in extents[1:]]])
    pieces = _collective("all_gather", [ranks, *extents], piece, group.channel(op))
    return side_by_side(pieces, dim)


def _broadcast(group: _Group, op: ir.Operation) -> ir.Value:
    root = place_in(op, "root")
    (x,) = op.operands
    if not group.is_at(op, root):
        zero = constant(0.0, x.type.element_type)
        x = linalg.fill(zero, outs=[tensor.empty(sizes(x), x.type.element_type)])
    return _sum(x, group.channel(op))


_LOWERINGS: dict[str, Callable[[_Group, ir.Operation], ir.Value]] = {
    "shard.all_reduce": _all_reduce,
    "shard.all_gather": _all_gather,
    "shard.broadcast": _broadcast,
}
