"""Runs all contenders through all cases, in turns."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from llmc.frontend.bench.contender import Case, Rows
from llmc.frontend.bench.remote import Sample
from llmc.runtime.errors import UserError

Measure = Callable[[Case, Rows], Sample]


@dataclass(frozen=True)
class Result:
    """One contender in one case: its samples, one of each round."""

    contender: str
    case: Case
    samples: Sequence[Sample]
    # What the machine could read at the time, bytes per second, round by round.
    bandwidth: Sequence[float]

    @property
    def prefill_tokens_per_s(self) -> list[float]:
        """Prompt tokens of all sequences per second, round by round."""
        tokens = self.case.prompt * self.case.batch
        return [tokens / sample.prefill_s for sample in self.samples]

    @property
    def decode_tokens_per_s(self) -> list[float]:
        """Generated tokens of all sequences per second, round by round."""
        tokens = self.case.generated * self.case.batch
        return [tokens / sample.decode_s for sample in self.samples]


def measure_in_turns(
    contenders: Mapping[str, Measure],
    bandwidth: Callable[[], float],
    cases: Sequence[Case],
    rounds: int,
    vocabulary: int,
    leave_out: Callable[[str, UserError], None],
) -> Iterator[list[Result]]:
    """Yields, case by case, the results of all contenders, in their order.

    A round runs each contender once, A B A B, after `bandwidth` measured what the machine can read;
    the round before the first only warms up. One that fails is told to `leave_out`, and is in no
    result from then on.
    """
    present = dict(contenders)
    for case in cases:
        rows = _random_rows(case, vocabulary)
        samples: dict[str, list[Sample]] = {name: [] for name in present}
        read: list[float] = []
        for _ in range(rounds + 1):
            read.append(bandwidth())
            for name, measure in list(present.items()):
                try:
                    samples[name].append(measure(case, rows))
                except UserError as error:
                    leave_out(name, error)
                    del present[name], samples[name]
        yield [Result(name, case, taken[1:], read[1:]) for name, taken in samples.items()]


def _random_rows(case: Case, vocabulary: int) -> list[list[int]]:
    """Tokens `[batch, cached]`, the same for the same case."""
    random = np.random.default_rng(case.cached)
    return random.integers(0, vocabulary, (case.batch, case.cached)).tolist()
