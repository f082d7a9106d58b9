"""How a rank waits for another one."""

import os
import time
from collections.abc import Callable

from llmc.runtime.errors import UserError

# A rank that sleeps is woken some 30 microseconds late, half of what a layer takes.
_YIELD_S = 0.002
NAP_S = 0.05
TIMEOUT_S = 60.0


class Waiting:
    """Waits: at first awake, though others may have the CPU, then asleep."""

    def __init__(self, timeout_s: float, check: Callable[[], None]) -> None:
        """`check` raises UserError where a rank is known to be dead; it is called now and then."""
        self._timeout_s = timeout_s
        self._check = check

    def until(
        self, ready: Callable[[], bool], nap: Callable[[], bool], whom: str, patient: bool = False
    ) -> None:
        """Returns once `ready` is, or `nap`, which sleeps for NAP_S at most.

        Raises UserError where `whom` it waits for takes longer than the timeout, unless it is
        `patient`.
        """
        end = time.perf_counter() + _YIELD_S
        while time.perf_counter() < end:
            if ready():
                return
            os.sched_yield()
        # By naps, not by the clock, which goes on while all ranks are stopped.
        naps_left = self._timeout_s / NAP_S
        while not nap():
            self._check()
            naps_left -= not patient
            if naps_left < 0:
                raise UserError(f"{whom} took no part for {self._timeout_s:g} s: see --timeout")
