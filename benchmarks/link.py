"""What a message costs on the way between ranks: alpha seconds, and one in beta for each byte.

Runs the collectives that compiled modules call, on arrays of several sizes, and fits a line through
their times by the bytes that a rank moves. `alpha` of an operation is that of all its steps.

    python benchmarks/link.py [--ranks 2]               # processes of this machine
    mpiexec -n 2 python benchmarks/link.py [--json]     # whatever MPI finds
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

from llmc.runtime.ranks.communicator import Communicator, Operation, bytes_moved
from llmc.runtime.ranks.launcher import connect
from llmc.runtime.ranks.local import LocalCommunicator, share_memory
from llmc.runtime.ranks.waiting import TIMEOUT_S

SIZES = (256, 2304, 1 << 14, 1 << 17, 1 << 20)  # bytes; 2304 are a token's of the sample model


@dataclass(frozen=True)
class Link:
    """The line that fits the times of an operation: in seconds, and in bytes a second."""

    operation: Operation
    alpha_s: float
    bytes_per_s: float
    seconds: dict[int, float]


def calls(communicator: Communicator, size: int) -> dict[Operation, Callable[[], None]]:
    """Operations on `size` bytes, that all ranks may call together."""
    world, rank = communicator.world, communicator.rank
    x = np.ones(size // 4 // len(world) * len(world), np.float32)
    part, gathered = np.split(x, len(world))[rank], np.empty_like(x)
    neighbours = (world[(rank + 1) % len(world)], world[rank - 1])
    octets = gathered.view(np.uint8)
    return {
        "all_reduce": lambda: communicator.start_all_reduce(x, world)(),
        "all_gather": lambda: communicator.start_all_gather(part.view(np.uint8), octets, world)(),
        "reduce_scatter": lambda: communicator.start_reduce_scatter(x, part.copy(), world)(),
        "shift": lambda: communicator.start_shift(x, gathered, *neighbours)(),
    }


def seconds_of(call: Callable[[], None], rounds: int) -> float:
    """Median time of one call."""
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def measure(communicator: Communicator, rounds: int) -> list[Link]:
    """All operations, on all ranks alike."""
    seconds: dict[Operation, dict[int, float]] = {}
    with communicator.cpus.kept():
        for size in SIZES:
            for operation, call in calls(communicator, size).items():
                call()  # makes the connection
                seconds.setdefault(operation, {})[size] = seconds_of(call, rounds)
    return [fit(operation, found, len(communicator.world)) for operation, found in seconds.items()]


def fit(operation: Operation, seconds: dict[int, float], ranks: int) -> Link:
    """The line with the least relative errors: times differ by orders of magnitude."""
    moved = np.array([bytes_moved(operation, size, ranks) for size in seconds], float)
    taken = np.array(list(seconds.values()))
    line = np.stack([np.ones_like(moved), moved], 1) / taken[:, None]
    (alpha, beta), *_ = np.linalg.lstsq(line, np.ones_like(taken), rcond=None)
    return Link(operation, float(alpha), float(1 / beta), seconds)


def start_processes(ranks: int) -> Communicator:
    """This process and new ones, in each of which it returns a communicator."""
    descriptor = share_memory(ranks)
    rank = next((rank for rank in range(1, ranks) if os.fork() == 0), 0)
    return LocalCommunicator(
        rank, ranks, descriptor, TIMEOUT_S, check=lambda: None, end=lambda: None
    )


def show(links: list[Link]) -> None:
    """A table of the lines, and of the times that they fit."""
    table = Table("operation", "alpha", "bandwidth", *(f"{size} B" for size in SIZES))
    for link in links:
        table.add_row(
            link.operation,
            f"{1e6 * link.alpha_s:.1f} us",
            f"{1e-6 * link.bytes_per_s:.1f} MB/s",
            *(f"{1e6 * seconds:.1f} us" for seconds in link.seconds.values()),
        )
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2, help="processes, without mpiexec")
    parser.add_argument("--rounds", type=int, default=101)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    communicator = connect(TIMEOUT_S) or start_processes(arguments.ranks)
    links = measure(communicator, arguments.rounds)
    if communicator.rank > 0:
        return
    if arguments.json:
        print(json.dumps([asdict(link) for link in links]))
    else:
        show(links)


if __name__ == "__main__":
    main()
