import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmc.runtime.errors import UserError
from llmc.runtime.manifest import Axis
from llmc.runtime.ranks.grid import Grid

NAMES = ("pp", "dp", "ep", "tp")
GRIDS = st.lists(st.integers(1, 4), max_size=4).map(
    lambda sizes: Grid(tuple(map(Axis, NAMES[: len(sizes)], sizes)))
)


@given(GRIDS, st.data())
def test_a_group_is_a_slice_of_the_dense_array_of_ranks(grid, data):
    ranks = np.arange(grid.size).reshape([axis.size for axis in grid.axes])
    rank = data.draw(st.integers(0, grid.size - 1))
    axes = data.draw(st.integers(0, 2 ** len(grid.axes) - 1))
    at = grid.coordinates(rank)
    assert ranks[at] == rank
    chosen = tuple(slice(None) if axes >> k & 1 else at[k] for k in range(len(at)))
    assert grid.group(rank, axes) == tuple(np.atleast_1d(ranks[chosen]).ravel())


@given(GRIDS, st.data())
def test_the_groups_along_some_axes_part_the_grid(grid, data):
    axes = data.draw(st.integers(0, 2 ** len(grid.axes) - 1))
    groups = {grid.group(rank, axes) for rank in range(grid.size)}
    assert sorted(rank for group in groups for rank in group) == list(range(grid.size))
    assert all(grid.group(rank, axes) == group for group in groups for rank in group)


@given(GRIDS.filter(lambda grid: grid.axes))
def test_what_is_written_is_parsed(grid):
    assert Grid.parse(str(grid)) == grid


@pytest.mark.parametrize(
    "text", ["", "tp", "tp=", "tp=0", "tp=-1", "tp=1e3", "TP=2", "tp=2,", "tp=2 pp=2", "tp=9999999"]
)
def test_what_is_no_grid_is_refused(text):
    with pytest.raises(UserError, match="give axes and sizes"):
        Grid.parse(text)


def test_an_axis_twice_is_refused():
    with pytest.raises(UserError, match="twice"):
        Grid.parse("tp=2,tp=3")
