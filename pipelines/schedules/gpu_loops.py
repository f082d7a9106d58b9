"""Reads the loops of a `linalg.generic` in a dispatch of IREE's."""

from collections.abc import Iterator
from dataclasses import dataclass

from iree.compiler import ir


@dataclass(frozen=True)
class Loops:
    """How many steps each loop has, -1 where that is not known, and which loops sum up."""

    sizes: tuple[int, ...]
    reduced: tuple[bool, ...]

    @property
    def open(self) -> int:
        """1 where the first loop, which sums nothing up, is of unknown size; else 0."""
        return int(self.sizes[:1] == (-1,) and not self.reduced[0])

    def reduce_as(self, *reduced: bool) -> bool:
        """Whether those after an open one are of known sizes and sum up as `reduced` says."""
        known = min(self.sizes[self.open :], default=0) >= 0
        return known and self.reduced[self.open :] == reduced


def loops_of(generic: ir.Operation) -> Loops:
    """The loops of a `linalg.generic`."""
    reduced = tuple("reduction" in str(kind) for kind in generic.attributes["iterator_types"])
    known = {dim: extent for dim, extent in _extents(generic) if extent >= 0}
    return Loops(tuple(known.get(dim, -1) for dim in range(len(reduced))), reduced)


def _extents(generic: ir.Operation) -> Iterator[tuple[int | None, int]]:
    """The extent of each dimension of its operands, with the loop that this follows."""
    for value, dims in zip(generic.operands, read_dims(generic), strict=True):
        if isinstance(value.type, ir.RankedTensorType):
            yield from zip(dims, value.type.shape, strict=True)


def read_dims(generic: ir.Operation) -> list[tuple[int | None, ...]]:
    """For each operand the loop that each of its dimensions follows; None where it is no one."""
    maps = [ir.AffineMapAttr(each).value for each in generic.attributes["indexing_maps"]]
    return [tuple(_position(result) for result in map_.results) for map_ in maps]


def _position(result: ir.AffineExpr) -> int | None:
    return result.position if isinstance(result, ir.AffineDimExpr) else None
