"""The whole of `llmc bench`: opens the contenders, runs all cases, sums up."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from llmc.frontend.bench.contender import Case, MissingError
from llmc.frontend.bench.entrants import OURS, Entrant
from llmc.frontend.bench.machine import Machine
from llmc.frontend.bench.measure import measure_in_turns
from llmc.frontend.bench.remote import Facts, Remote, opened
from llmc.frontend.bench.report import Row, sum_up
from llmc.runtime.errors import UserError


@dataclass
class Field:
    """Who takes part, ours first, and why others do not, or no longer; `tell` hears of these."""

    tell: Callable[[str], None]
    contenders: dict[str, Remote] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def facts(self) -> dict[str, Facts]:
        """What the contenders say of themselves."""
        return {name: remote.facts for name, remote in self.contenders.items()}

    def leave_out(self, name: str, reason: Exception) -> None:
        """Goes on without the contender `name`. UserError if it is ours."""
        if name == OURS:
            raise UserError(str(reason)) from reason
        self.missing[name] = str(reason)
        self.tell(f"{name} is left out: {reason}")


def open_field(entrants: Sequence[Entrant], stack: ExitStack, tell: Callable[[str], None]) -> Field:
    """Opens the contenders, ours first, until `stack` ends. UserError if ours cannot be opened."""
    present = Field(tell)
    for entrant in entrants:
        try:
            present.contenders[entrant.name] = stack.enter_context(opened(entrant))
        except MissingError as reason:
            present.leave_out(entrant.name, reason)
    return present


def bench(
    present: Field,
    cases: Sequence[Case],
    rounds: int,
    vocabulary: int,
    machine: Machine,
) -> Iterator[list[Row]]:
    """Yields the rows of case after case. UserError if ours fails."""
    turns = {name: remote.measure for name, remote in present.contenders.items()}
    for results in measure_in_turns(
        turns, machine.read_bytes_per_s, cases, rounds, vocabulary, present.leave_out
    ):
        yield list(sum_up(results, present.facts))
