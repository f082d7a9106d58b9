"""Collectives on random arrays against numpy, over any communicator."""

import numpy as np

from llmc.runtime.ranks.channel import ROOM
from llmc.runtime.ranks.communicator import Communicator
from llmc.runtime.ranks.grid import Grid

# Less than a room of a channel, one, and more than two.
LENGTHS = (0, 1, 576, ROOM // 4, 5 * ROOM // 8 + 3)


def check_collectives(communicator: Communicator, grid: Grid) -> None:
    """Runs each in all groups of the grid and compares; all ranks call it."""
    for axes in range(1, 2 ** len(grid.axes)):
        group = grid.group(communicator.rank, axes)
        if len(group) > 1:
            for length in LENGTHS:
                _check_sums(communicator, group, length)
                _check_moves(communicator, group, length)


def _array(rank: int, length: int) -> np.ndarray:
    """What `rank` has; all ranks know."""
    return np.random.default_rng([rank, length]).standard_normal(length).astype(np.float32)


def _check_sums(communicator: Communicator, group: tuple[int, ...], length: int) -> None:
    here, members = group.index(communicator.rank), len(group)
    x = _array(communicator.rank, length)
    communicator.start_all_reduce(x, group)()
    # Of n float32 below 8 in size: n roundings of half a unit in the last place of 8 n.
    tolerance = members * members * 8 * 2**-24
    np.testing.assert_allclose(x, sum(_array(r, length) for r in group), rtol=0, atol=tolerance)
    everywhere = np.empty(x.size * members, np.float32)
    communicator.start_all_gather(x.view(np.uint8), everywhere.view(np.uint8), group)()
    assert all((sums == x).all() for sums in np.split(everywhere, members))  # to the bit
    whole, piece = _array(communicator.rank, length * members), np.empty(length, np.float32)
    communicator.start_reduce_scatter(whole, piece, group)()
    wanted = sum(np.split(_array(r, length * members), members)[here] for r in group)
    np.testing.assert_allclose(piece, wanted, rtol=0, atol=tolerance)


def _check_moves(communicator: Communicator, group: tuple[int, ...], length: int) -> None:
    rank, members = communicator.rank, len(group)
    here = group.index(rank)
    gathered = np.empty(length * members, np.float32)
    own = _array(rank, length).view(np.uint8)
    communicator.start_all_gather(own, gathered.view(np.uint8), group)()
    assert (gathered == np.concatenate([_array(r, length) for r in group])).all()
    for root in group:
        x = _array(rank, length)
        communicator.broadcast(x, root, group)
        assert (x == _array(root, length)).all()
    for by in range(1, members):
        to, source = group[(here + by) % members], group[here - by]
        shifted = np.empty(length, np.float32)
        communicator.start_shift(_array(rank, length), shifted, to, source)()
        assert (shifted == _array(source, length)).all()
    if here > 0:
        received = np.empty(length, np.float32)
        communicator.receive(received, group[here - 1])
        assert (received == _array(group[here - 1], length)).all()
    if here < members - 1:
        communicator.send(_array(rank, length), group[here + 1])
    _check_several(communicator, group, length)
    assert communicator.gather_messages(b"x" * rank) == [b"x" * r for r in communicator.world]


def _check_several(communicator: Communicator, group: tuple[int, ...], length: int) -> None:
    """What is started together, and finished out of order, gets to where it belongs."""
    sums = [_array(communicator.rank, length + at) for at in range(4)]
    finishes = [communicator.start_all_reduce(x, group) for x in sums]
    for finish in (finishes[1], finishes[0], finishes[3], finishes[2]):
        finish()
    for at, x in enumerate(sums):
        alone = _array(communicator.rank, length + at)
        communicator.start_all_reduce(alone, group)()
        assert (x == alone).all()
