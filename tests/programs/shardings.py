"""Random grids, and random annotations of what is split along them."""

from itertools import pairwise
from math import prod

from hypothesis import strategies as st
from torch_mlir import ir
from torch_mlir.dialects import func

from llmc.dialects.attributes import i64
from llmc.dialects.block_types import block_format
from llmc.pipelines.passes.annotate_shardings import AXES
from llmc.pipelines.passes.partition_stages import AXIS as STAGES
from llmc.pipelines.rewriting.functions import functions
from llmc.pipelines.rewriting.layers import trunks
from llmc.pipelines.sharding.annotations import STAGE, add_grid, mark_layout
from llmc.pipelines.sharding.split import Layout, Range, Split, whole
from llmc.runtime.manifest import Axis
from llmc.runtime.ranks.grid import Grid

_RANKS_MOST = 6
_CHOSEN_MOST = 4

grids = (
    st.lists(
        st.builds(Axis, st.sampled_from(AXES), st.integers(1, 4)),
        min_size=1,
        max_size=3,
        unique_by=lambda axis: axis.name,
    )
    .filter(lambda axes: 1 < prod(axis.size for axis in axes) <= _RANKS_MOST)
    .map(lambda axes: Grid(tuple(axes)))
)


def annotate(data: st.DataObject, module: ir.Module, grid: Grid, *, activations: bool) -> None:
    """Puts `grid` into `module`, splits some weights, and says where its layers are.

    A weight is split alike wherever it is named. With `activations` any other values are split too.
    """
    add_grid(module, grid)
    layouts: dict[str, Layout | None] = {}
    for function in functions(module):
        values = _tensors(function)
        for value in values:
            if value.owner.name == "llmc.parameter":
                name = f"{value.owner.attributes['sources'][0]} {value.type}"
                if name not in layouts:
                    layouts[name] = data.draw(st.none() | _layouts(value.type.shape, grid))
                if layouts[name] is not None:
                    mark_layout(value, layouts[name])
        if activations and values:
            places = st.sampled_from(range(len(values)))
            for place in data.draw(st.lists(places, max_size=_CHOSEN_MOST, unique=True)):
                mark_layout(values[place], data.draw(_layouts(values[place].type.shape, grid)))
    _place_layers(data, module, grid)


def _tensors(function: func.FuncOp) -> list[ir.Value]:
    """What may be split: no blocks, for weights become these later."""
    return [
        result
        for op in function.entry_block
        for result in op.operation.results
        if isinstance(result.type, ir.RankedTensorType) and block_format(result.type) is None
    ]


def _place_layers(data: st.DataObject, module: ir.Module, grid: Grid) -> None:
    """The same in all variants: a layer has one KV cache."""
    stages = next((axis.size for axis in grid.axes if axis.name == STAGES), 1)
    drawn: list[int] | None = None
    for trunk in trunks(module):
        calls = [op for op in trunk.entry_block if isinstance(op, func.CallOp)]
        if drawn is None:
            place = st.integers(0, stages - 1)
            drawn = sorted(data.draw(st.lists(place, min_size=len(calls), max_size=len(calls))))
        for call, stage in zip(calls, drawn, strict=True):
            call.attributes[STAGE] = i64(stage)


@st.composite
def _layouts(draw: st.DrawFn, shape: list[int], grid: Grid) -> Layout:
    """Splits of some dimensions, each along an axis of its own."""
    layout = list(whole(len(shape)))
    for number, axis in enumerate(grid.axes):
        dims = [
            dim
            for dim, extent in enumerate(shape)
            if layout[dim] is None and extent >= axis.size and axis.name != STAGES
        ]
        dim = draw(st.sampled_from([*dims, None]))
        if dim is not None:
            layout[dim] = Split(number, tuple(draw(_ranges(axis.size, shape[dim]))))
    return tuple(layout)


@st.composite
def _ranges(draw: st.DrawFn, ranks: int, extent: int) -> list[Range]:
    """Parts of whole units, as heads are, where that goes; they may overlap."""
    unit = draw(st.sampled_from([each for each in (4, 2, 1) if each * ranks <= extent]))
    cuts = [0]
    for rank in range(1, ranks):
        cuts.append(draw(st.integers(cuts[-1] + 1, extent // unit - ranks + rank)))
    ranges = list(pairwise([*(cut * unit for cut in cuts), extent]))
    if not draw(st.booleans()):
        return ranges
    for rank in range(1, ranks):
        (earliest, _), (begin, end) = ranges[rank - 1], ranges[rank]
        ranges[rank] = draw(st.integers(earliest, begin)), end
    return ranges
