"""The grid of ranks: who is where in it, and who takes part in a collective with whom."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from llmc.runtime.errors import UserError
from llmc.runtime.manifest import Axis

_AXIS = re.compile(r"([a-z]+)=([1-9][0-9]{0,5})")


@dataclass(frozen=True)
class Grid:
    """Ranks in rows and columns: rank r has the coordinates of the element r of a dense array.

    No axes are one rank.
    """

    axes: tuple[Axis, ...]

    @classmethod
    def parse(cls, text: str) -> Grid:
        """The grid that `dp=2,tp=2` describes. UserError where it describes none."""
        found = [_AXIS.fullmatch(part) for part in text.split(",")]
        axes = tuple(Axis(match[1], int(match[2])) for match in found if match)
        if len(axes) < len(found):
            raise UserError(f"there is no grid {text!r}: give axes and sizes, as dp=2,tp=2")
        if len({axis.name for axis in axes}) < len(axes):
            raise UserError(f"the grid {text!r} has an axis twice: give each once")
        return cls(axes)

    def __str__(self) -> str:
        return ",".join(f"{axis.name}={axis.size}" for axis in self.axes)

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return math.prod(axis.size for axis in self.axes)

    def coordinates(self, rank: int) -> tuple[int, ...]:
        """The position of `rank` along each axis."""
        found: list[int] = []
        for axis in reversed(self.axes):
            rank, at = divmod(rank, axis.size)
            found.insert(0, at)
        return tuple(found)

    def group(self, rank: int, axes: int) -> tuple[int, ...]:
        """The ranks that differ from `rank` along `axes` alone, ascending: `rank` is one of them.

        `axes` is a bit mask: bit k is axis k.
        """
        here = self.coordinates(rank)
        fixed = [number for number in range(len(self.axes)) if not axes >> number & 1]
        return tuple(
            other
            for other in range(self.size)
            if all(self.coordinates(other)[number] == here[number] for number in fixed)
        )
