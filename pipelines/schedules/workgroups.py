"""How the panels of a weight are shared by workgroups."""

from math import ceil

from llmc.pipelines.schedules.schedule import MOST

_LARGEST = 2 * 1024 * 1024
"""Bytes of weights that a workgroup reads at most, so that all end together.

Where a core's share is less, it is one workgroup: each waits for the first panels that it reads.
"""

_START = 8 * 1024
"""Bytes that a core could read while a workgroup waits for the first of its own."""


def panels_of_workgroup(panels: int, size: int, cores: int, turns: int = 1) -> int:
    """How many of a weight's panels, which have `size` bytes together, a workgroup has.

    So few that each core has `turns` workgroups, and one reads no more than `_LARGEST` bytes.
    There are two workgroups at least: a loop of one round is no grid. All have as many; of the
    numbers for which that is so it is the one with which the last core ends first.
    """
    most = min(panels // (turns * max(cores, 2)), _LARGEST * panels // size, MOST)

    def time(count: int) -> float:
        one_after_another = ceil(panels // count / cores)
        return one_after_another * (count * size / panels + _START)

    return min((count for count in range(max(1, most), 0, -1) if panels % count == 0), key=time)
