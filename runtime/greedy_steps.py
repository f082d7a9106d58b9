"""How many greedy tokens one call of the engine gives."""

import math
import time

from llmc.runtime.runner import Runner

# More would make the text jerk, and be computed in vain where it ends.
_MOST = 8
_SECONDS = 0.02


class GreedySteps:
    """Greedy steps, several from a call where that takes no time that a reader would notice.

    Between calls the device waits for the host.
    """

    def __init__(self, engine: Runner) -> None:
        self._engine = engine
        self._step_s = math.inf

    def run(self, tokens: list[int], past: int, starts: list[int], left: int) -> list[list[int]]:
        """The next tokens, at most `left`, of sequences whose last ones belong in column `past`.

        A list for each step, as `Runner.greedy` has them.
        """
        count = max(min(_MOST, left, int(_SECONDS / self._step_s)), 1)
        begin = time.perf_counter()
        steps = self._engine.greedy(tokens, past, starts, count)
        self._step_s = (time.perf_counter() - begin) / len(steps)
        return steps
