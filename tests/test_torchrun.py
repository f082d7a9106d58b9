"""Ranks that torchrun starts: the same as those of --local, and none that is left over."""

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from llmc.runtime.errors import UserError
from llmc.runtime.ranks import launcher, rendezvous
from llmc.runtime.ranks.local import share_memory
from tests.ranked_bundle import continued

BIN = Path(sys.executable).parent
LLMC = BIN / "llmc"


def variables(rank: int, **others: str) -> dict[str, str]:
    """What torchrun tells one of two ranks, on a port that no other test has."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        told = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(free.getsockname()[1])}
    return {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", **told, **others}


@pytest.fixture
def ranks(ranked_bundle) -> Iterator[Callable[..., list[subprocess.Popen[str]]]]:
    """Starts two ranks with the words of a command line."""
    processes: list[subprocess.Popen[str]] = []

    def start(command: str, *words: object) -> list[subprocess.Popen[str]]:
        port = variables(0)["MASTER_PORT"]
        for rank in range(2):
            process = subprocess.Popen(
                [LLMC, command, ranked_bundle, *map(str, words)],
                env=os.environ | variables(rank, MASTER_PORT=port),
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            processes.append(process)
        return processes

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def test_torchrun_starts_ranks(ranked_bundle):
    words = ("run", ranked_bundle, "--raw", "--prompt", "the cat", "--max-new-tokens", "9")
    command = [BIN / "torchrun", "--nproc-per-node", "2", "--no-python", LLMC, *words, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    facts = json.loads(done.stdout)
    assert facts["token_ids"] == continued(facts["prompt_token_ids"], 9)


def test_all_ranks_end_well(ranks):
    first, second = ranks("run", "--raw", "--prompt", "the cat", "--max-new-tokens", 9, "--json")
    facts = json.loads(first.communicate(timeout=60)[0])
    assert facts["token_ids"] == continued(facts["prompt_token_ids"], 9)
    assert second.communicate(timeout=60) == ("", "")
    assert first.returncode == second.returncode == 0


@pytest.mark.parametrize(
    ("by", "says"), [(signal.SIGKILL, "rank 1 ended"), (signal.SIGSTOP, "rank 1 took no part")]
)
def test_a_rank_that_is_gone_ends_the_run(ranks, by, says):
    first, second = ranks("chat", "--max-new-tokens", 3, "--timeout", 2)
    first.stdin.write("Hi\n")
    first.stdin.flush()
    first.stdout.readline()
    second.send_signal(by)
    _, said = first.communicate("Hi\n", timeout=30)
    assert first.returncode == 2
    assert said.startswith(f"llmc: error: {says}")
    assert second.wait(timeout=10) == -signal.SIGKILL


def test_the_others_end_with_rank_0(ranks):
    first, second = ranks("chat", "--max-new-tokens", 3)
    first.stdin.write("Hi\n")
    first.stdin.flush()
    first.stdout.readline()
    first.kill()
    _, said = second.communicate(timeout=30)
    assert said == "llmc: error: rank 1: rank 0 ended\n"
    assert second.returncode == 2


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ({"LOCAL_WORLD_SIZE": "1"}, "1 of 2 ranks on this machine: use mpiexec"),
        ({"RANK": "2"}, "no rank '2' of '2'"),
        ({"RANK": "-1"}, "no rank '-1' of '2'"),
        ({"RANK": "0"}, r"rank 1 took no part for 0\.1 s"),
        ({"RANK": "1"}, r"rank 0 took no part for 0\.1 s"),
    ],
)
def test_ranks_that_are_elsewhere_are_a_clear_error(told, says, monkeypatch):
    for name, value in variables(0, **told).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UserError, match=says):
        launcher.connect(0.1)


def test_a_rank_that_ends_before_it_is_given_memory_is_named():
    name, descriptor = f"test {os.getpid()}", share_memory(2)
    with ThreadPoolExecutor(1) as pool:
        shared = pool.submit(rendezvous.share, name, 2, descriptor, 5.0)
        with rendezvous._connection(name, time.monotonic() + 5.0) as rank_1:
            rank_1.shutdown(socket.SHUT_RD)
            rank_1.send(struct.pack("q", 1))
            with pytest.raises(UserError, match="rank 1 ended"):
                shared.result()
    os.close(descriptor)


def test_a_lone_process_is_no_rank(monkeypatch):
    for name, value in variables(0, WORLD_SIZE="1", LOCAL_WORLD_SIZE="1").items():
        monkeypatch.setenv(name, value)
    assert launcher.connect(0.1) is None
