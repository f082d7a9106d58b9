"""Grids and layouts as operations of MLIR's shard dialect.

    shard.grid @grid(shape = 2x2) {llmc.axes = ["dp", "tp"]}
    %split = shard.sharding @grid split_axes = [[], [1]] : !shard.sharding
    %y = shard.shard %x to %split : tensor<4x64xf32>

A dimension of open size is dealt out, an element to each rank in turn. Parts that differ in size
are in `sharded_dims_offsets`. Where parts overlap, which the dialect has no words for,
`llmc.ranges = [[[0, 64], [0, 64], [64, 128]]]` gives those of each split dimension.
"""

import json
from collections.abc import Sequence
from itertools import pairwise

from torch_mlir import ir
from torch_mlir.dialects import shard

from llmc.dialects.attributes import i64
from llmc.pipelines.errors import fail
from llmc.pipelines.rewriting.functions import symbol_users
from llmc.pipelines.sharding.split import Dealt, Layout, Split, even_split
from llmc.pipelines.walks import find
from llmc.runtime.errors import UserError
from llmc.runtime.manifest import Axis
from llmc.runtime.ranks.grid import Grid

GRID = "grid"
STAGE = "llmc.pipeline_stage"
"""On the call of a layer: where along the grid's axis `pp` it runs."""
_AXES = "llmc.axes"
_RANK = "llmc.rank"
_RANGES = "llmc.ranges"


def add_grid(module: ir.Module, grid: Grid) -> None:
    """Puts the grid at the top of `module`."""
    with ir.InsertionPoint.at_block_begin(module.body):
        op = shard.GridOp(GRID, [axis.size for axis in grid.axes])
    names = [ir.StringAttr.get(axis.name) for axis in grid.axes]
    op.attributes[_AXES] = ir.ArrayAttr.get(names)


def grid_of(module: ir.Module) -> Grid | None:
    """The grid that `module` is written for; None without one. PassError where it is none."""
    ops = find(module.operation, "shard.grid")
    if not ops:
        return None
    op, *others = ops
    names, sizes = op.attributes.get(_AXES), list(op.opview.shape)
    if others or op.opview.sym_name.value != GRID:
        fail(others[0] if others else op, f"a module has one grid, called @{GRID}")
    is_named = isinstance(names, ir.ArrayAttr) and len(names) == len(sizes)
    if not is_named or not all(isinstance(name, ir.StringAttr) for name in names):
        fail(op, f"the grid needs a name for each of its axes in '{_AXES}'")
    if any(size < 1 for size in sizes):
        fail(op, "the grid needs a size of at least 1 for each of its axes")
    return Grid(
        tuple(
            Axis(ir.StringAttr(name).value, size) for name, size in zip(names, sizes, strict=True)
        )
    )


def remove_unused_grid(module: ir.Module) -> None:
    """Erases the grid where nothing in `module` names it any more."""
    if grids := find(module.operation, "shard.grid"):
        users = symbol_users(module)
        for grid in grids:
            if not users[grid.opview.sym_name.value]:
                grid.erase()


def coordinates_of(module: ir.Module, grid: Grid, rank: int) -> tuple[int, ...]:
    """Where `rank` is in the grid of `module`. PassError where it is not in it."""
    if not 0 <= rank < grid.size:
        fail(module.operation, f"there is no rank {rank} in a grid of {grid.size}")
    return grid.coordinates(rank)


def mark_rank(module: ir.Module, rank: int) -> None:
    """Says on the grid which rank's program `module` is."""
    for op in find(module.operation, "shard.grid"):
        op.attributes[_RANK] = i64(rank)


def rank_of(module: ir.Module, grid: Grid) -> int:
    """The rank whose program `module` is; 0 where nothing says it. PassError where none has it."""
    marks = [op.attributes.get(_RANK) for op in find(module.operation, "shard.grid")]
    rank = next((int(mark.value) for mark in marks if isinstance(mark, ir.IntegerAttr)), 0)
    coordinates_of(module, grid, rank)
    return rank


def shard_op(value: ir.Value, layout: Layout, *, for_users: bool = False) -> ir.Value:
    """`value`, which is or, `for_users`, is to be in `layout`."""
    splits = [split for split in layout if split and not isinstance(split, Dealt)]
    axes = ", ".join("[]" if split is None else f"[{split.axis}]" for split in layout)
    offsets: list[int] = []
    if not all(split.is_even for split in splits) and all(split.is_disjoint for split in splits):
        offsets = [cut for split in splits for cut in (0, *(end for _, end in split.ranges))]
    sharding = shard.ShardingOp(
        GRID,
        ir.Attribute.parse(f"#shard<axisarray[{axes}]>"),
        [],
        [],
        static_sharded_dims_offsets=offsets,
        static_halo_sizes=[],
    )
    if not all(split.is_disjoint for split in splits):
        ranges = [[list(range_) for range_ in split.ranges] for split in splits]
        sharding.attributes[_RANGES] = ir.Attribute.parse(json.dumps(ranges))
    return shard.ShardOp(value, sharding, annotate_for_users=for_users).result


def mark_layout(value: ir.Value, layout: Layout) -> None:
    """Says to all that use the result `value` that it is in `layout`."""
    users = [(use.owner, use.operand_number) for use in value.uses]
    with ir.InsertionPoint.after(value.owner), value.owner.location:
        annotated = shard_op(value, layout)
    for owner, number in users:
        owner.operands[number] = annotated


def layout_of(op: shard.ShardOp, grid: Grid) -> Layout:
    """The layout that `op` says its value has. PassError where it says none that llmc knows."""
    shape = op.result.type.shape
    sharding = op.sharding.owner.opview
    axes = json.loads(str(sharding.attributes["split_axes"]).removeprefix("#shard<axisarray")[:-1])
    axes += [[]] * (len(shape) - len(axes))
    if any(len(each) > 1 for each in axes) or sharding.attributes["static_halo_sizes"]:
        fail(op, "a dimension is split along one axis at most, and has no halo")
    if any(axis >= len(grid.axes) for each in axes for axis in each):
        fail(op, f"the grid has no more than {len(grid.axes)} axes to split along")
    offsets = list(sharding.attributes["static_sharded_dims_offsets"])
    ranges = json.loads(str(sharding.attributes[_RANGES])) if _RANGES in sharding.attributes else []
    layout: list[Split | None] = []
    for extent, each in zip(shape, axes, strict=True):
        if not each:
            layout.append(None)
            continue
        ranks = grid.axes[each[0]].size
        if extent < 0:
            layout.append(Dealt(each[0], (), ranks))
            continue
        if offsets:
            cuts, offsets = offsets[: ranks + 1], offsets[ranks + 1 :]
            split = Split(each[0], tuple(pairwise(cuts)))
        elif ranges:
            split = Split(each[0], tuple((begin, end) for begin, end in ranges.pop(0)))
        else:
            try:
                split = even_split(each[0], ranks, extent)
            except ValueError as error:
                fail(op, str(error))
        if len(split.ranges) != ranks or not split.covers(extent):
            fail(op, f"the parts of {ranks} ranks do not make up the {extent} elements")
        layout.append(split)
    return tuple(layout)


def check_axes(grid: Grid, known: Sequence[str]) -> None:
    """UserError where the grid has an axis that nothing can be split along."""
    for axis in grid.axes:
        if axis.name not in known:
            raise UserError(f"there is no axis {axis.name!r}: a grid has {', '.join(known)}")
