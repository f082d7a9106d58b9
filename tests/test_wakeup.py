"""The thread that waits for workers does not preempt them, and is as it was afterwards."""

import os
from threading import Thread

import pytest

from llmc.runtime.wakeup import with_preemption, without_preemption

pytestmark = pytest.mark.skipif(
    not hasattr(os, "SCHED_BATCH"), reason="the system has no batch policy"
)


def policies_seen(policy: int) -> list[int]:
    """The policy of a thread that begins with `policy`: within and after."""
    seen = []

    def run() -> None:
        os.sched_setscheduler(0, policy, os.sched_param(0))
        with pytest.raises(RuntimeError), without_preemption():
            seen.append(os.sched_getscheduler(0))
            raise RuntimeError
        seen.append(os.sched_getscheduler(0))

    thread = Thread(target=run)
    thread.start()
    thread.join()
    return seen


def test_a_thread_is_a_batch_thread_for_a_while():
    assert policies_seen(os.SCHED_OTHER) == [os.SCHED_BATCH, os.SCHED_OTHER]


def test_who_has_another_policy_keeps_it():
    assert policies_seen(os.SCHED_BATCH) == [os.SCHED_BATCH, os.SCHED_BATCH]


def test_a_batch_thread_may_preempt_while_it_waits_for_another_process():
    seen = []

    def run() -> None:
        with without_preemption():
            with with_preemption():
                seen.append(os.sched_getscheduler(0))
            seen.append(os.sched_getscheduler(0))

    thread = Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [os.SCHED_OTHER, os.SCHED_BATCH]
