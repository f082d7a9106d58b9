"""Delta debugging: ever smaller parts of a module are left out while a test still ends as before.

Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", 2002.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from torch_mlir import ir

from llmc import dialects
from llmc.pipelines.errors import UNPARSED, reason
from llmc.pipelines.reduction.attributes import drop_attributes, shorten_lists, zero_constants
from llmc.pipelines.reduction.command import Command, Outcome
from llmc.pipelines.reduction.functions import (
    drop_arguments,
    drop_results,
    empty_functions,
    erase_symbols,
)
from llmc.pipelines.reduction.operations import detach_operands, erase_operations, erase_unused
from llmc.pipelines.reduction.stand_in import is_stand_in
from llmc.pipelines.reduction.strategy import Strategy
from llmc.pipelines.walks import walk
from llmc.runtime.errors import UserError

STRATEGIES: tuple[Strategy, ...] = (
    erase_symbols,
    empty_functions,
    erase_unused,
    erase_operations,
    detach_operands,
    drop_results,
    drop_arguments,
    drop_attributes,
    shorten_lists,
    zero_constants,
)


@dataclass(frozen=True, eq=False)
class Candidate:
    """A module and its text, which has no locations."""

    module: ir.Module
    text: str
    operations: int
    links: int

    @classmethod
    def of(cls, module: ir.Module) -> "Candidate":
        """Measures `module`; `links` are operands that are results of another operation."""
        ops = list(walk(module.operation))
        links = sum(not is_stand_in(operand) for op in ops for operand in op.operands)
        return cls(module, str(module), len(ops), links)

    def is_smaller(self, other: "Candidate") -> bool:
        """Whether it has fewer operations than `other`; or else links, or else letters."""
        return self._size < other._size

    @property
    def _size(self) -> tuple[int, int, int]:
        return self.operations, self.links, len(self.text)


def reduce(text: str, command: Command, jobs: int) -> Iterator[Candidate]:
    """Ever smaller modules on which `command` ends as it does on `text`; the first is all of it.

    `jobs` candidates are tried at once. UserError where `text` is no valid module, or where the
    command ends alike on an empty module, and so cannot tell what is wanted.
    """
    module = _parse(text)
    wanted = command.run(text)
    if command.run("module {\n}\n") == wanted:
        raise UserError(
            f"the test '{command.text}' {wanted} on this file, and on an empty module as well: it "
            "must end differently where there is nothing of interest"
        )
    whole = Candidate.of(module)
    if (plain := command.run(whole.text)) != wanted:
        raise UserError(
            f"the test '{command.text}' {wanted} on this file, but {plain} once the file is "
            "parsed and printed again, without locations"
        )
    yield whole
    yield from _Reduction(command, wanted, jobs, whole).run()


class _Reduction:
    """The search itself: `best` is the smallest module so far that is of interest."""

    def __init__(self, command: Command, wanted: Outcome, jobs: int, whole: Candidate) -> None:
        self._command = command
        self._wanted = wanted
        self._jobs = jobs
        self._dull: set[str] = set()
        self.best = whole

    def run(self) -> Iterator[Candidate]:
        """Goes through the strategies until none helps any more."""
        before = None
        while before is not self.best:
            before = self.best
            for strategy in STRATEGIES:
                yield from self._narrow(strategy)

    def _narrow(self, strategy: Strategy) -> Iterator[Candidate]:
        """Does a strategy's edits: all, then halves of them, and so on down to each alone."""
        count = width = self._count(strategy)
        while width:
            end = count
            while end > 0:
                batch, end = self._next_batch(strategy, end, width)
                found = self._first_of_interest([candidate for _, candidate in batch])
                if found is not None:
                    end, self.best = batch[found]
                    count = self._count(strategy)
                    end = min(end, count)
                    yield self.best
            width //= 2

    def _count(self, strategy: Strategy) -> int:
        return len(strategy(self.best.module))

    def _next_batch(
        self, strategy: Strategy, end: int, width: int
    ) -> tuple[list[tuple[int, Candidate]], int]:
        """Candidates to try at once, each with where its edits begin; and where to go on."""
        batch: list[tuple[int, Candidate]] = []
        while end > 0 and len(batch) < self._jobs:
            begin = max(0, end - width)
            candidate = self._edit(strategy, slice(begin, end))
            if candidate is not None and candidate.text not in self._dull:
                batch.append((begin, candidate))
            end = begin
        return batch, end

    def _edit(self, strategy: Strategy, chosen: slice) -> Candidate | None:
        """`best` with some edits done, if that is valid and smaller."""
        module = self.best.module.operation.clone().opview
        with module.context, ir.Location.unknown():
            for edit in reversed(strategy(module)[chosen]):
                edit()
        try:
            module.operation.verify()
        except ir.MLIRError:
            return None
        candidate = Candidate.of(module)
        return candidate if candidate.is_smaller(self.best) else None

    def _first_of_interest(self, candidates: list[Candidate]) -> int | None:
        """Tries all at once; those after the first of interest are given up."""
        with ExitStack() as running:
            waits = [running.enter_context(self._command.started(c.text)) for c in candidates]
            for number, wait in enumerate(waits):
                if wait() == self._wanted:
                    return number
                self._dull.add(candidates[number].text)
        return None


def _parse(text: str) -> ir.Module:
    context = ir.Context()
    context.allow_unregistered_dialects = True
    dialects.load(context)
    try:
        return ir.Module.parse(text, context)
    except ir.MLIRError as error:
        raise UserError(f"this is no valid module: {reason(error, UNPARSED)}") from error
