"""The spans of layers that may be the stages of a pipeline, and what they have."""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Content:
    """What a stage has: `counts` layers of each problem, and what is before or after all layers."""

    counts: tuple[int, ...]
    is_first: bool
    is_last: bool

    def times(self, problem: int, *, is_last: bool) -> int:
        """How often a node of `problem` is there; `is_last` says that it comes after the layers."""
        if problem < len(self.counts):
            return self.counts[problem]
        return int(self.is_last if is_last else self.is_first)


@dataclass(frozen=True)
class Layers:
    """The layers in order, by the numbers of their problems, to be cut into so many `stages`.

    Where the stage of each is given, in `places`, there is one way to do so.
    """

    kinds: tuple[int, ...]
    stages: int
    places: tuple[int, ...] = ()

    def spans(self) -> Iterator[tuple[int, int]]:
        """The first layer, and the one after the last, of each span that may be a stage."""
        count = len(self.kinds)
        if self.places:
            starts = [self.places.index(stage) for stage in range(self.stages)]
            yield from zip(starts, [*starts[1:], count], strict=True)
            return
        for begin in range(count):
            for end in range(begin + 1, count + 1):
                around = (begin > 0) + (end < count)
                if around <= self.stages - 1 and begin + (count - end) >= self.stages - 1:
                    yield begin, end

    def content(self, begin: int, end: int) -> Content:
        """What the stage of layers `begin` to `end - 1` has."""
        within = self.kinds[begin:end]
        counts = tuple(within.count(kind) for kind in range(max(self.kinds) + 1))
        return Content(counts, begin == 0, end == len(self.kinds))
