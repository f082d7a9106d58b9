"""Which of several timers is the fastest, found with few runs of the slow ones.

Successive halving: Jamieson and Talwalkar, "Non-stochastic best arm identification and
hyperparameter optimization", 2016.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_ROUNDS = 4
_FINAL_ROUNDS = 12


@dataclass(frozen=True)
class Fastest:
    """The number of the fastest timer, what it took, and what the first one took: seconds."""

    number: int
    seconds: float
    first_seconds: float


def fastest(timers: Sequence[Callable[[], float]]) -> Fastest:
    """Runs all in turns, and again and again the faster half of those; the first stays to the end.

    What disturbs a run only slows it down, and so the minimum counts. The last round pits the
    winner against the first: one that is not faster in most of its turns, and at its best, has not
    won.
    """
    times: list[list[float]] = [[] for _ in timers]

    def best(number: int) -> float:
        return min(times[number])

    def race(numbers: Sequence[int], rounds: int) -> None:
        for _ in range(rounds):
            for number in numbers:
                times[number].append(timers[number]())

    rest = list(range(1, len(timers)))
    while len(rest) > 1:
        race([0, *rest], _ROUNDS)
        rest = sorted(rest, key=best)[: len(rest) // 2]
    winner = rest[0] if rest else 0
    race([0, winner] if winner else [0], _FINAL_ROUNDS)
    if winner:
        pairs = zip(times[0][-_FINAL_ROUNDS:], times[winner][-_FINAL_ROUNDS:], strict=True)
        is_faster = statistics.median(default / tuned for default, tuned in pairs) > 1
        if not is_faster or best(winner) > best(0):
            winner = 0
    return Fastest(winner, best(winner), best(0))
