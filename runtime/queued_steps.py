"""How many tokens one call of the engine gives."""

import math
import time
from collections.abc import Callable

# More would make the text jerk, and be computed in vain where it ends.
_MOST = 8
_SECONDS = 0.02


class QueuedSteps:
    """Steps, several from a call where that takes no time that a reader would notice.

    Between calls the device waits for the host.
    """

    def __init__(self) -> None:
        self._step_s = math.inf

    def run(self, call: Callable[[int], list[list[int]]], left: int) -> list[list[int]]:
        """The tokens of each step that `call` makes of as many as it is told, at most `left`."""
        count = max(min(_MOST, left, int(_SECONDS / self._step_s)), 1)
        begin = time.perf_counter()
        steps = call(count)
        if steps:
            self._step_s = (time.perf_counter() - begin) / len(steps)
        return steps
