"""How many tokens one call of the engine gives."""

import math
import time
from collections.abc import Callable
from itertools import takewhile

Steps = list[list[int]]
"""For each step, the token of each sequence."""

# More would make the text jerk, and be computed in vain where it ends.
_MOST = 12
_SECONDS = 0.02


class QueuedSteps:
    """Steps, several from a call where that takes no time that a reader would notice.

    Between calls the device waits for the host.
    """

    def __init__(self) -> None:
        self._step_s = math.inf
        self._most = _MOST

    def run(self, call: Callable[[int], Steps], left: int) -> Steps:
        """The steps that `call` makes of as many as it is told, at most `left`."""
        count = max(min(self._most, left, int(_SECONDS / self._step_s)), 1)
        begin = time.perf_counter()
        steps = call(count)
        if steps:
            self._step_s = (time.perf_counter() - begin) / len(steps)
        return steps

    def run_while(
        self, is_good: Callable[[list[int]], bool], call: Callable[[int], Steps], left: int
    ) -> tuple[Steps, int]:
        """The steps before the first that is not good, and how many were made.

        It asks for as many the next time, or where they were all for more.
        """
        steps = self.run(call, left)
        good = list(takewhile(is_good, steps))
        is_all = len(good) == len(steps)
        self._most = min(2 * self._most, _MOST) if is_all else max(len(good), 1)
        return good, len(steps)
