"""Which CPU each worker thread is kept on."""

import os
from pathlib import Path

_SYSTEM = Path("/sys/devices/system/cpu")


def worker_cpus(count: int, system: Path = _SYSTEM) -> tuple[int, ...]:
    """CPUs for `count` workers, one for each; empty where the scheduler should place them.

    Linux wakes workers that wait for each other on one CPU more often than not. Workers that take
    all CPUs of this process, or one of each core, have but one good place each, and are kept there.
    Fewer might all choose the CPUs that another process has chosen, and more would share them.
    """
    if not hasattr(os, "sched_getaffinity"):
        return ()
    allowed = sorted(os.sched_getaffinity(0))
    firsts = _one_of_each_core(allowed, system)
    if count == len(allowed):
        return tuple(allowed)
    return firsts if count == len(firsts) else ()


def _one_of_each_core(cpus: list[int], system: Path) -> tuple[int, ...]:
    """The first of the `cpus` of each core: the others are threads of the same core."""
    cores: dict[str | int, int] = {}
    for cpu in cpus:
        try:
            core: str | int = (system / f"cpu{cpu}/topology/thread_siblings_list").read_text()
        except OSError:
            core = cpu
        cores.setdefault(core, cpu)
    return tuple(cores.values())
