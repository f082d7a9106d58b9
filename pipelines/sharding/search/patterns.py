"""What was chosen for weights, written down as a plan."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from llmc.pipelines.sharding.plan import Pin
from llmc.pipelines.sharding.search.options import Option
from llmc.pipelines.sharding.search.problem import Problem
from llmc.pipelines.sharding.search.solver import Solution
from llmc.pipelines.sharding.split import Layout
from llmc.runtime.ranks.grid import Grid

_NUMBER = re.compile(r"(?<=\.)[0-9]+(?=\.)")


@dataclass(frozen=True)
class Written:
    """Weights under a pattern: their pins, and how they are split, for people."""

    name: str
    pins: tuple[Pin, ...]
    inputs: tuple[str, ...]
    words: str


@dataclass(frozen=True)
class _Chosen:
    option: Option
    needs: Layout

    def written(self, pattern: str, part: int | None, grid: Grid) -> Written:
        """The words and pins for weights that match `pattern`; none where they follow."""
        layout, gathers = self.option
        pins = tuple(
            Pin(pattern, dim, grid.axes[split.axis].name, 1, split.ranges, part)
            for dim, split in enumerate(layout or ())
            if split
        )
        splits = [
            f"dim {dim} along {grid.axes[split.axis].name}"
            for dim, split in enumerate(self.needs)
            if split
        ]
        words = (" and ".join(splits) or "whole") + (", input gathered" if gathers else "")
        name = pattern if part is None else f"{pattern}, part {part}"
        return Written(name, pins, (pattern,) if gathers else (), words)


def written(problems: Sequence[Problem], solution: Solution, grid: Grid) -> list[Written]:
    """What is chosen for each weight, with `*` for a layer's number where all have the same."""
    chosen: dict[tuple[str, int | None], dict[str, _Chosen]] = defaultdict(dict)
    for problem, options in zip(problems, solution.options, strict=True):
        for number, (option, needs) in options.items():
            name = problem.weights[number]
            for source in name.sources:
                pattern = _NUMBER.sub("*", source, count=1)
                chosen[pattern, name.part][source] = _Chosen(option, needs)
    found: list[Written] = []
    for (pattern, part), by_source in chosen.items():
        if len(set(by_source.values())) == 1:
            by_source = {pattern: next(iter(by_source.values()))}
        found += [each.written(name, part, grid) for name, each in by_source.items()]
    return found
