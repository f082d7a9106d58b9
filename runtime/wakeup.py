"""How the thread that waits for IREE's workers is woken."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_preemption() -> Iterator[None]:
    """Keeps this thread, when it is woken, from taking the CPU away from the worker that wakes it.

    IREE 3.13's wait ends in a loop until that worker has left its callback: on the worker's CPU it
    would go round for a whole time slice, milliseconds. Batch threads do not preempt (sched(7)).
    Does nothing to a thread of another policy, where it may not change it, or not on Linux.
    """
    is_batch = _set_policy("SCHED_OTHER", "SCHED_BATCH")
    try:
        yield
    finally:
        if is_batch:
            _set_policy("SCHED_BATCH", "SCHED_OTHER")


@contextmanager
def with_preemption() -> Iterator[None]:
    """Undoes `without_preemption` for a while, in which another process wakes this thread."""
    was_batch = _set_policy("SCHED_BATCH", "SCHED_OTHER")
    try:
        yield
    finally:
        if was_batch:
            _set_policy("SCHED_OTHER", "SCHED_BATCH")


def _set_policy(before: str, after: str) -> bool:
    """Gives this thread the policy `after` if it has `before`; whether it has it now."""
    if not hasattr(os, after) or os.sched_getscheduler(0) != getattr(os, before):
        return False
    try:
        os.sched_setscheduler(0, getattr(os, after), os.sched_param(0))
    except PermissionError:  # as in some containers
        return False
    return True
