"""The processes that a test has started, directly or not: Linux's view of them."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path


def processes_of(parent: int) -> Iterator[int]:
    """Those that `parent` has started and that have not ended."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, started_by = path.read_text().rpartition(")")[2].split()[:2]
        except OSError:  # it has ended meanwhile
            continue
        if int(started_by) == parent and state != "Z":
            yield int(path.parent.name)


def is_alive(process: int) -> bool:
    """Whether it has not ended."""
    try:
        return (Path("/proc") / str(process) / "stat").read_text().rpartition(")")[2][1] != "Z"
    except OSError:
        return False


def wait_until(condition: Callable[[], bool]) -> None:
    """Returns once it holds, within seconds."""
    end = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)
