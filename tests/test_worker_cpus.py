import os
import subprocess
import sys
from pathlib import Path

import pytest

from llmc.runtime.worker_cpus import worker_cpus

# Four cores of two threads each, numbered as Linux does on most machines.
SIBLINGS = {cpu: f"{cpu % 4},{cpu % 4 + 4}\n" for cpu in range(8)}


@pytest.fixture
def system(tmp_path: Path) -> Path:
    for cpu, siblings in SIBLINGS.items():
        folder = tmp_path / f"cpu{cpu}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(siblings)
    return tmp_path


def allow(monkeypatch: pytest.MonkeyPatch, cpus: set[int]) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: cpus, raising=False)


@pytest.mark.parametrize(
    ("allowed", "count", "cpus"),
    [
        (set(range(8)), 8, (0, 1, 2, 3, 4, 5, 6, 7)),
        (set(range(8)), 4, (0, 1, 2, 3)),  # one of each core
        (set(range(8)), 3, ()),
        (set(range(8)), 9, ()),
        ({2, 3, 6, 7}, 4, (2, 3, 6, 7)),
        ({2, 3, 6, 7}, 2, (2, 3)),
        ({1, 5, 6}, 2, (1, 6)),
        ({5}, 1, (5,)),
    ],
)
def test_workers_have_the_cpus_of_the_process_or_its_cores(
    monkeypatch, system, allowed, count, cpus
):
    allow(monkeypatch, allowed)
    assert worker_cpus(count, system) == cpus


def test_cpus_of_unknown_cores_are_cores(monkeypatch, tmp_path):
    allow(monkeypatch, {0, 1, 2})
    assert worker_cpus(3, tmp_path) == (0, 1, 2)
    assert worker_cpus(2, tmp_path) == ()


def test_no_cpus_where_there_is_no_affinity(monkeypatch, system):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert worker_cpus(8, system) == ()


@pytest.mark.skipif(sys.platform != "linux", reason="reads the affinity of threads")
def test_every_worker_stays_on_a_cpu_of_the_process(tiny_bundle):
    """In a process of its own, for IREE's workers are made once."""
    code = f"""
import os, pathlib
first = min(os.sched_getaffinity(0))
os.sched_setaffinity(0, {{first}})
import llmc.runtime
llmc.runtime.load({str(tiny_bundle)!r})
tasks = pathlib.Path("/proc/self/task").iterdir()
print([os.sched_getaffinity(int(t.name)) == {{first}} for t in tasks
       if (t / "comm").read_text().startswith("iree-worker")])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[True]"
