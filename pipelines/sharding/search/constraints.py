"""What the user wants of a plan: dimensions that weights are, or are not, to be split in."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from llmc.pipelines.sharding.search.problem import Node, Problem
from llmc.pipelines.sharding.split import Layout
from llmc.runtime.errors import UserError

WHOLE = "whole"


@dataclass(frozen=True)
class Wish:
    """The weights that match `pattern`, and a dimension they are split in; None for none."""

    pattern: str
    dim: int | None

    @classmethod
    def parse(cls, text: str) -> "Wish":
        """What `PATTERN=0` or `PATTERN=whole` says. UserError where it says nothing."""
        pattern, _, dim = text.rpartition("=")
        if not pattern or not (dim == WHOLE or dim.isdecimal()):
            raise UserError(f"{text!r} must be PATTERN=DIM, such as *.q_proj.weight=0, or =whole")
        return cls(pattern, None if dim == WHOLE else int(dim))

    def is_about(self, names: Sequence[str]) -> bool:
        """Whether the pattern matches one of a weight's names."""
        return any(fnmatchcase(name, self.pattern) for name in names)

    def is_true(self, layout: Layout) -> bool:
        """Whether a weight in `layout` is split so."""
        if self.dim is None:
            return not any(layout)
        return self.dim < len(layout) and layout[self.dim] is not None


@dataclass(frozen=True)
class Constraints:
    """Wishes that hold, wishes that do not, and groups of patterns that are split alike."""

    pin: tuple[Wish, ...] = ()
    forbid: tuple[Wish, ...] = ()
    same: tuple[tuple[str, ...], ...] = ()

    def check(self, problems: Sequence[Problem]) -> None:
        """UserError where a pattern matches no weight."""
        names = [name for problem in problems for each in problem.weights for name in each.sources]
        patterns = [wish.pattern for wish in (*self.pin, *self.forbid)]
        for pattern in (*patterns, *(each for group in self.same for each in group)):
            if not any(fnmatchcase(name, pattern) for name in names):
                raise UserError(f"no weight that could be split is called {pattern}")

    def kept(self, problem: Problem) -> Problem:
        """`problem` with the choices that the wishes allow. UserError where none is left."""
        return replace(problem, nodes=tuple(self._kept(problem, node) for node in problem.nodes))

    def _kept(self, problem: Problem, node: Node) -> Node:
        choices = tuple(
            choice
            for choice in node.choices
            if not choice.weight
            or self._allows(problem.weights[choice.weight[0]].sources, choice.needs)
        )
        if not choices:
            names = {
                problem.weights[each.weight[0]].sources[0] for each in node.choices if each.weight
            }
            raise UserError(f"{', '.join(names)} cannot be split as --pin and --forbid want it")
        return replace(node, choices=choices)

    def _allows(self, names: Sequence[str], layout: Layout) -> bool:
        return all(wish.is_true(layout) for wish in self.pin if wish.is_about(names)) and not any(
            wish.is_true(layout) for wish in self.forbid if wish.is_about(names)
        )

    def groups(self, problems: Sequence[Problem]) -> list[list[tuple[int, int]]]:
        """The weights that are split alike, by problem and number."""
        return [
            [
                (number, at)
                for number, problem in enumerate(problems)
                for at, weight in enumerate(problem.weights)
                if any(fnmatchcase(name, each) for name in weight.sources for each in group)
            ]
            for group in self.same
        ]
