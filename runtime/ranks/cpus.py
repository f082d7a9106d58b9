"""Which CPUs each of the ranks of a machine runs on."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from llmc.runtime.errors import UserError


def require_linux() -> None:
    """UserError where ranks cannot be kept on CPUs."""
    if not hasattr(os, "sched_setaffinity"):
        raise UserError("several ranks need Linux: compile for one, without --grid")


@dataclass(frozen=True)
class CPUShare:
    """A rank's share of the CPUs that it may use, as the `sharers` that may use the same do.

    Left to itself Linux puts ranks, which wait for each other, on one CPU.
    """

    position: int
    sharers: int

    @cached_property
    def cpus(self) -> frozenset[int]:
        """Those that this rank keeps to: some of its own, or one that it shares with others."""
        allowed = sorted(os.sched_getaffinity(0))
        each = len(allowed) // self.sharers
        if each == 0:
            return frozenset({allowed[self.position % len(allowed)]})
        return frozenset(allowed[self.position * each : (self.position + 1) * each])

    @cached_property
    def is_own(self) -> bool:
        """Whether no other rank runs there."""
        return self.sharers <= len(os.sched_getaffinity(0))

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keeps this thread on its CPUs, and those that it starts meanwhile for good."""
        cpus, before = self.cpus, os.sched_getaffinity(0)
        os.sched_setaffinity(0, cpus)
        try:
            yield
        finally:
            os.sched_setaffinity(0, before)
