"""What it takes to read a prompt over links of several rates, with bundles of a grid by turns.

Ranks are processes of this machine. What one sends is there when a link of the rate would have
carried it, one message after another; no CPU is busy with that.

    llmc compile smollm2 --dtype as-is --grid tp=2 -o plain
    llmc compile smollm2 --dtype as-is --grid tp=2 --overlap -o overlapped
    python benchmarks/overlap.py plain overlapped
"""

import argparse
import os
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

from llmc.runtime.manifest import Manifest
from llmc.runtime.opening import find_module, open_engine
from llmc.runtime.ranks.communicator import Finish
from llmc.runtime.ranks.local import LocalCommunicator, share_memory
from llmc.runtime.ranks.waiting import TIMEOUT_S
from llmc.runtime.runner import Runner

RATES = (None, 8000, 4000, 2000, 1000)  # Mbit/s


class ShapedLink(LocalCommunicator):
    """Sends at a rate, in bytes a second, that may be None for no limit."""

    rate: float | None = None

    def __init__(self, rank: int, ranks: int, descriptor: int) -> None:
        """One of the processes that share the memory `descriptor`."""
        super().__init__(rank, ranks, descriptor, TIMEOUT_S, lambda: None, lambda: None)
        self._free_at = 0.0
        self._counted = 0

    def announce(self, message: bytes) -> None:
        """All make the same calls without being told."""

    def _start(self, steps: Iterator[bool]) -> Finish:
        finish = super()._start(steps)
        sent, self._counted = self.moved - self._counted, self.moved
        if self.rate is None:
            return finish
        self._free_at = max(self._free_at, time.perf_counter()) + sent / self.rate
        arrival = self._free_at

        def finish_at_arrival() -> None:
            time.sleep(max(arrival - time.perf_counter(), 0.0))
            finish()

        return finish_at_arrival


@contextmanager
def timed(communicator: ShapedLink, seconds: list[float]) -> Iterator[None]:
    """Adds what something takes that all ranks begin together."""
    communicator.gather_messages(b"")
    begin = time.perf_counter()
    yield
    seconds.append(time.perf_counter() - begin)


def measure(
    communicator: ShapedLink, engines: list[Runner], tokens: list[int], rounds: int
) -> list[float]:
    """The median time of each engine's prefill."""
    seconds: list[list[float]] = [[] for _ in engines]
    for _ in range(rounds):
        for engine, times in zip(engines, seconds, strict=True):
            engine.reset(1, len(tokens))
            with timed(communicator, times):
                _ = engine.prefill(tokens, 0).best
    return [statistics.median(times) for times in seconds]


def open_bundle(folder: Path, communicator: ShapedLink) -> Runner:
    """This rank's part of a bundle, with one thread."""
    manifest, placement = find_module(folder, None, communicator)
    return open_engine(manifest, placement, folder, 1, communicator)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bundles", nargs="+", type=Path)
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    ranks = Manifest.read(arguments.bundles[0]).ranks
    descriptor = share_memory(ranks)
    rank = next((rank for rank in range(1, ranks) if os.fork() == 0), 0)
    communicator = ShapedLink(rank, ranks, descriptor)
    table = Table("Mbit/s", *map(str, arguments.bundles))
    with communicator.cpus.kept():
        engines = [open_bundle(folder, communicator) for folder in arguments.bundles]
        for rate in RATES:
            communicator.rate = rate and rate * 1e6 / 8
            found = measure(communicator, engines, [1] * arguments.tokens, arguments.rounds)
            table.add_row(str(rate or "any"), *(f"{1e3 * each:.0f} ms" for each in found))
    if rank == 0:
        Console().print(table)
    os._exit(0)  # at once: IREE's bindings would tell of all that is still in use


if __name__ == "__main__":
    main()
