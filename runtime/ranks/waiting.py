"""How a rank waits for another one."""

import time
from collections.abc import Callable

from llmc.runtime.errors import UserError
from llmc.runtime.wakeup import with_preemption

# A rank that sleeps is woken some 40 microseconds late; one that does not keeps others from a CPU.
_SPIN_S = 0.00005
NAP_S = 0.05
TIMEOUT_S = 60.0


class Waiting:
    """Waits: at first awake, where the rank has a CPU of its own, then asleep."""

    def __init__(
        self, timeout_s: float, *, has_own_cpu: bool, check: Callable[[], None] = lambda: None
    ) -> None:
        """`check` raises UserError where a rank is known to be dead; it is called now and then."""
        self._timeout_s = timeout_s
        self._spin_s = _SPIN_S if has_own_cpu else 0.0
        self._check = check

    def until(
        self, ready: Callable[[], bool], nap: Callable[[], bool], whom: str, patient: bool = False
    ) -> None:
        """Returns once `ready` is, or `nap`, which sleeps for NAP_S at most.

        Raises UserError where `whom` it waits for takes longer than the timeout, unless it is
        `patient`.
        """
        if ready():
            return
        end = time.perf_counter() + self._spin_s
        while time.perf_counter() < end:
            if ready():
                return
        with with_preemption():
            self._sleep(nap, whom, patient)

    def _sleep(self, nap: Callable[[], bool], whom: str, patient: bool) -> None:
        # By naps, not by the clock, which goes on while all ranks are stopped.
        naps_left = self._timeout_s / NAP_S
        while not nap():
            self._check()
            naps_left -= not patient
            if naps_left < 0:
                raise UserError(f"{whom} took no part for {self._timeout_s:g} s: see --timeout")
