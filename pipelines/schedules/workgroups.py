"""How the panels of a weight are shared by workgroups."""

from llmc.pipelines.divisor import divisor
from llmc.pipelines.schedules.schedule import MOST

_LARGEST = 2 * 1024 * 1024
"""Bytes of weights that a workgroup reads at most, so that all end together.

Where a core's share is less, it is one workgroup: each waits for the first panels that it reads.
"""


def panels_of_workgroup(panels: int, size: int, cores: int, turns: int = 1) -> int:
    """How many of a weight's panels, which have `size` bytes together, a workgroup has.

    So few that each core has `turns` workgroups, and one reads no more than `_LARGEST` bytes.
    There are two workgroups at least: a loop of one round is no grid.
    """
    most = min(panels // (turns * max(cores, 2)), _LARGEST * panels // size, MOST)
    return _shared_evenly(panels, max(1, most), cores)


def _shared_evenly(panels: int, most: int, cores: int) -> int:
    """The greatest divisor up to `most` that gives each core as many workgroups.

    The greatest of all where none does that is at least half of it.
    """
    greatest = divisor(panels, most)
    even = (
        count
        for count in range(greatest, max(greatest // 2, 1) - 1, -1)
        if panels % count == 0 and panels // count % cores == 0
    )
    return next(even, greatest)
