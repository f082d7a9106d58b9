"""A split: which part of a dimension each rank along an axis of the grid has."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TypeAlias

from torch_mlir import ir

Range: TypeAlias = tuple[int, int]
"""The first element and the one after the last."""


@dataclass(frozen=True)
class Split:
    """Rank c along grid axis `axis` has the elements of `ranges[c]`.

    Ranges are in ascending order and cover the dimension; they may overlap, where neighbours have
    the same elements.
    """

    axis: int
    ranges: tuple[Range, ...]

    @property
    def extent(self) -> int:
        """The size of the whole dimension."""
        return self.ranges[-1][1]

    def covers(self, extent: int) -> bool:
        """Whether the ranges are ascending parts of `extent` elements that leave none out."""
        ends = [0, *(end for _, end in self.ranges)]
        return ends[-1] == extent and all(
            0 <= begin <= before <= end and begin < end
            for (begin, end), before in zip(self.ranges, ends, strict=False)
        )

    @property
    def is_even(self) -> bool:
        """Whether all ranks have parts of the same size, and none an element of another's."""
        each, rest = divmod(self.extent, len(self.ranges))
        return not rest and all(r == (n * each, (n + 1) * each) for n, r in enumerate(self.ranges))

    @property
    def is_disjoint(self) -> bool:
        """Whether every element is on one rank."""
        ends = [0, *(end for _, end in self.ranges)]
        return all(begin == end for (begin, _), end in zip(self.ranges, ends, strict=False))

    def part(self, coordinates: Sequence[int]) -> Range:
        """The range of the rank at `coordinates` of the grid."""
        return self.ranges[coordinates[self.axis]]

    def times(self, ratio: Fraction) -> "Split":
        """The split of a dimension `ratio` times as long, each range rounded outwards."""
        up, down = ratio.numerator, ratio.denominator
        ranges = tuple((begin * up // down, -(-end * up // down)) for begin, end in self.ranges)
        return Split(self.axis, ranges)

    def keeps_whole(self, count: int) -> bool:
        """Whether each range lies within a group of `count` elements or consists of whole ones."""
        return all(
            begin // count == (end - 1) // count or begin % count == end % count == 0
            for begin, end in self.ranges
        )


@dataclass(frozen=True)
class Dealt(Split):
    """A split of a dimension of open size: rank c has the elements c, c + `ranks` and so on.

    So all have about as many of them, however many there are yet. It has no `ranges`.
    """

    ranks: int = 1

    @property
    def is_even(self) -> bool:
        """False: parts may differ by an element, and types do not say it."""
        return False

    def times(self, ratio: Fraction) -> "Split":
        """The same; only dimensions of one size are dealt out together (see `rules.assign`)."""
        return self


Layout: TypeAlias = tuple[Split | None, ...]
"""How a tensor is split: an entry for each dimension, None for one that every rank has whole."""


def whole(rank: int) -> Layout:
    """The layout of a tensor of `rank` dimensions of which every rank has all."""
    return (None,) * rank


def whole_of(value: ir.Value) -> Layout:
    """The layout of `value` where every rank has all of it; what is no tensor has no dimensions."""
    return whole(value.type.rank if isinstance(value.type, ir.RankedTensorType) else 0)


def even_split(axis: int, ranks: int, extent: int, unit: int = 1) -> Split:
    """Parts of as nearly the same size as whole numbers of `unit` elements allow.

    ValueError where `unit` does not divide `extent`, or there is not one for each rank.
    """
    units, rest = divmod(extent, unit)
    if rest or units < ranks:
        together = f", {unit} of them together," if unit > 1 else ""
        raise ValueError(f"{extent} elements{together} cannot be split among {ranks} ranks")
    cuts = [number * units // ranks * unit for number in range(ranks + 1)]
    return Split(axis, tuple(pairwise(cuts)))


def split_heads(axis: int, ranks: int, heads: int, groups: int) -> Split:
    """A split of query heads whose ranges keep the heads of a group together, where that goes.

    With more ranks than the `groups` of heads that share a key head, ranks share the heads of one
    group. ValueError where there is not a head for each rank.
    """
    if heads < ranks:
        raise ValueError(f"{heads} heads cannot be split among {ranks} ranks")
    shared = heads // groups
    if ranks <= groups:
        return even_split(axis, ranks, heads, shared)
    ranges: list[Range] = []
    for group, (begin, end) in enumerate(even_split(axis, groups, ranks).ranges):
        of_group = even_split(axis, end - begin, shared)
        ranges += [(group * shared + a, group * shared + b) for a, b in of_group.ranges]
    return Split(axis, tuple(ranges))


def local_shape(shape: Sequence[int], layout: Layout, coordinates: Sequence[int]) -> list[int]:
    """What the rank at `coordinates` has of a tensor of `shape`."""
    return [
        extent
        if split is None or isinstance(split, Dealt)
        else split.part(coordinates)[1] - split.part(coordinates)[0]
        for extent, split in zip(shape, layout, strict=True)
    ]


def local_type(type_: ir.Type, layout: Layout, coordinates: Sequence[int]) -> ir.Type:
    """The type of what the rank at `coordinates` has of a tensor."""
    if not any(layout):
        return type_
    return ir.RankedTensorType.get(
        local_shape(type_.shape, layout, coordinates), type_.element_type
    )
