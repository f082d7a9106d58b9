"""Ranks that mpiexec starts: the same as on one machine, and one message where one is gone."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from llmc.runtime.errors import UserError
from llmc.runtime.ranks import launcher
from llmc.runtime.ranks.local import share_memory
from tests.processes import is_alive, processes_of, wait_until
from tests.ranked_bundle import continued

BIN = Path(sys.executable).parent
MPIEXEC, LLMC = BIN / "mpiexec", BIN / "llmc"
CHECK = (
    "import sys\n"
    "from llmc.runtime.ranks.grid import Grid\n"
    "from llmc.runtime.ranks.mpi import MPICommunicator\n"
    "from tests.collective_cases import check_collectives\n"
    "check_collectives(MPICommunicator(60.0), Grid.parse(sys.argv[1]))\n"
)


def mpiexec(ranks: int, *words: object) -> subprocess.CompletedProcess[str]:
    command = [MPIEXEC, "-n", str(ranks), *map(str, words)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, cwd=Path(__file__).parent.parent
    )


@pytest.mark.parametrize("grid", ["tp=2", "dp=2,tp=2"])
def test_collectives_are_what_numpy_says(grid):
    ranks = 2 if grid == "tp=2" else 4
    done = mpiexec(ranks, sys.executable, "-c", CHECK, grid)
    assert done.returncode == 0, done.stderr


def test_text_is_that_of_the_whole_model(ranked_bundle):
    words = ("--raw", "--prompt", "the cat", "--max-new-tokens", 9, "--json")
    done = mpiexec(2, LLMC, "run", ranked_bundle, *words)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["token_ids"] == continued(facts["prompt_token_ids"], 9)


def test_what_rank_0_refuses_is_told_once(ranked_bundle):
    done = mpiexec(2, LLMC, "run", ranked_bundle, "--raw", "--prompt", "")
    assert done.returncode == 2
    assert done.stderr == "llmc: error: the prompt is empty: it has no tokens\n"


def test_another_number_of_ranks_is_told_once(ranked_bundle):
    done = mpiexec(3, LLMC, "run", ranked_bundle, "--prompt", "x")
    assert done.returncode == 2
    assert done.stderr == (
        f"llmc: error: {ranked_bundle} is for 2 ranks (tp=2), not for 3: start as many\n"
    )


def test_another_bundle_is_told_once(ranked_bundle, tmp_path):
    shutil.copytree(ranked_bundle, tmp_path, dirs_exist_ok=True)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    (tmp_path / "manifest.json").write_text(json.dumps({**manifest, "name": "other"}))
    words = ("--prompt", "x", ":", "-n", "1", LLMC, "run", tmp_path, "--prompt", "x")
    done = mpiexec(1, LLMC, "run", ranked_bundle, *words)
    assert done.returncode == 2
    assert done.stderr == (
        "llmc: error: rank 1 has another bundle than rank 0: give all the same\n"
    )


def test_a_model_that_cannot_be_compiled_ends_all_ranks(tmp_path):
    done = mpiexec(2, LLMC, "run", tmp_path / "none", "--prompt", "x")
    assert done.returncode == 2
    assert done.stderr.count("llmc: error: ") == 1


@pytest.mark.parametrize("more", ["Hi\n", ""], ids=["in a step", "at the end"])
def test_a_rank_that_hangs_ends_the_run(ranked_bundle, more):
    words = ("--timeout", "1", "--max-new-tokens", "3")
    command = [MPIEXEC, "-n", "2", LLMC, "chat", ranked_bundle, *words]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:
        process.stdin.write("Hi\n")
        process.stdin.flush()
        process.stdout.readline()
        ranks = [rank for proxy in processes_of(process.pid) for rank in processes_of(proxy)]
        assert len(ranks) == 2
        shared = shared_by(ranks[0])
        (rank_1,) = [rank for rank in ranks if "PMI_RANK=1\0" in environment_of(rank)]
        os.kill(rank_1, signal.SIGSTOP)
        _, said = process.communicate(more, timeout=20)
    assert process.returncode == 2
    assert said == "llmc: error: another rank took no part for 1 s: see --timeout\n"
    for rank in ranks:
        wait_until(lambda rank=rank: not is_alive(rank))
    assert shared and not [path for path in shared if path.exists()]


def shared_by(process: int) -> set[Path]:
    """The files of MPICH that a process maps: others, of other tests, may come and go."""
    lines = (Path("/proc") / str(process) / "maps").read_text().splitlines()
    return {Path(line.split()[-1]) for line in lines if "/dev/shm/mpich_shm" in line}


def environment_of(process: int) -> str:
    return (Path("/proc") / str(process) / "environ").read_text()


@pytest.mark.parametrize(
    ("environment", "several"),
    [
        ({}, False),
        ({"PMI_SIZE": "1"}, False),
        ({"PMI_SIZE": "2"}, True),
        ({"OMPI_COMM_WORLD_SIZE": "16"}, True),
        ({"SLURM_STEP_NUM_TASKS": "2"}, True),
        ({"SLURM_NTASKS": "2"}, False),  # of a script for sbatch, which runs once
    ],
)
def test_launchers_are_known_by_what_they_leave(environment, several):
    assert launcher.started_by_mpi(environment) == several


def test_a_launcher_without_mpi_is_a_clear_error(monkeypatch):
    monkeypatch.setenv("PMI_SIZE", "2")
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    monkeypatch.delitem(sys.modules, "llmc.runtime.ranks.mpi", raising=False)
    with pytest.raises(UserError, match=r"pip install 'llmc-compiler\[mpi\]'"):
        launcher.connect(1.0)


@pytest.mark.parametrize("start", [lambda: launcher.connect(1.0), lambda: share_memory(2)])
def test_ranks_outside_linux_are_a_clear_error(start, monkeypatch):
    monkeypatch.setenv("PMI_SIZE", "2")
    monkeypatch.delattr(os, "sched_setaffinity")
    with pytest.raises(UserError, match="Linux"):
        start()
