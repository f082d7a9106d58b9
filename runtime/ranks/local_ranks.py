"""The ranks of a bundle as processes of this machine, which this process starts and ends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from llmc.runtime.errors import UserError
from llmc.runtime.manifest import Manifest
from llmc.runtime.ranks.follower import run_follower
from llmc.runtime.ranks.local import LocalCommunicator, share_memory


def start_local_ranks(
    folder: Path, threads: int | None, device: str | None, timeout_s: float
) -> LocalCommunicator:
    """Starts all ranks of the bundle in `folder` but the first, which this process is to be.

    Each has so many `threads`, by default its share of the CPUs. Returns the way to the others,
    which end with it. UserError for a bundle of one rank.
    """
    ranks = Manifest.read(folder).ranks
    if ranks == 1:
        raise UserError(f"{folder} is for one device: compile with --grid what is to run --local")
    descriptor = share_memory(ranks)
    followers = _Followers(
        [
            _start((rank, ranks, descriptor, timeout_s, str(folder), threads, device), descriptor)
            for rank in range(1, ranks)
        ]
    )
    return LocalCommunicator(0, ranks, descriptor, timeout_s, followers.check, followers.end)


def _start(arguments: tuple[object, ...], descriptor: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", __name__, json.dumps(arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,  # what it says is why it ended
        pass_fds=[descriptor],
        process_group=0,  # where Ctrl-C does not reach it
    )


class _Followers:
    """The processes of the ranks from 1 on."""

    def __init__(self, processes: list[subprocess.Popen[bytes]]) -> None:
        self._processes = processes

    def check(self) -> None:
        """Raises UserError where one has ended."""
        for rank, process in enumerate(self._processes, 1):
            status = process.poll()
            if status is None:
                continue
            said = process.stdout.read().decode() if process.stdout else ""
            if not said:
                by_signal = status < 0
                said = signal.Signals(-status).name if by_signal else f"status {status}"
            raise UserError(f"rank {rank} ended: {said}")

    def end(self) -> None:
        """Ends those that still run; they have nothing to lose."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()
            if process.stdout:
                process.stdout.close()


def _main(
    rank: int,
    ranks: int,
    descriptor: int,
    timeout_s: float,
    folder: str,
    threads: int | None,
    device: str | None,
) -> None:
    parent = os.getppid()

    def check() -> None:
        if os.getppid() != parent:
            raise UserError("rank 0 is gone")

    communicator = LocalCommunicator(rank, ranks, descriptor, timeout_s, check, lambda: None)
    try:
        run_follower(communicator, Path(folder), threads, device)
    except UserError as error:
        with contextlib.suppress(BrokenPipeError):
            os.write(sys.stdout.fileno(), str(error).encode())
        os._exit(2)  # at once: IREE's bindings would tell of all that is still in use


if __name__ == "__main__":
    _main(*json.loads(sys.argv[1]))
