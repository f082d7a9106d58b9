"""What the machine can do, measured on the spot: reading, and multiplying numbers of each type.

The bounds of the roofline: Williams, Waterman and Patterson, "Roofline: an insightful visual
performance model for multicore architectures", 2009.
"""

from dataclasses import dataclass

from llmc.runtime.devices import usable_cpus

BEYOND_CACHES = 1 << 29
"""Bytes of which no cache holds much."""

# The first reads bring to the caches what others have put out of them since.
_ATTEMPTS = 10


@dataclass(frozen=True)
class Bounds:
    """Bytes per second read from as much memory as the weights take; arithmetic per second.

    A multiplication and an addition count as two. `byte_ops_per_s` is for products of bytes added
    to 32-bit sums by vector instructions, `pair_ops_per_s` for those of bf16, two to a sum; None
    where the CPU has none that we know.
    """

    read_bytes_per_s: float
    float_ops_per_s: float
    byte_ops_per_s: float | None
    pair_ops_per_s: float | None = None


def measure() -> Bounds:
    """What this CPU does with all threads that this process may use.

    ModuleNotFoundError where the compiler is not installed.
    """
    return Machine(BEYOND_CACHES, usable_cpus()).bounds()


class Machine:
    """The probes, compiled for this CPU and loaded."""

    def __init__(self, read_bytes: int, threads: int) -> None:
        """Prepares to read so many bytes, rounded down, with `threads` threads."""
        # Here, for the rest of the file needs no compiler, nor does llmc --help.
        from llmc.frontend.bench.probes import load_probes

        loaded = load_probes(read_bytes, threads)
        self._run = loaded.run
        self._read_bytes, self._operations = loaded.read_bytes, loaded.operations
        self._best: dict[str, float] = {}

    def bounds(self) -> Bounds:
        """The best of all measurements until now, for what disturbs one only slows it down."""
        for name in self._run:
            for _ in range(_ATTEMPTS):
                self._measure(name)
        best = self._best
        return Bounds(
            read_bytes_per_s=self._read_bytes / best["read"],
            float_ops_per_s=self._operations / best["floats"],
            byte_ops_per_s=4 * self._operations / best["bytes"] if "bytes" in best else None,
            pair_ops_per_s=2 * self._operations / best["pairs"] if "pairs" in best else None,
        )

    def read_bytes_per_s(self) -> float:
        """What it reads at this time, again and again, as decoding does."""
        return self._read_bytes / min(self._measure("read") for _ in range(_ATTEMPTS))

    def _measure(self, name: str) -> float:
        seconds = self._run[name]()
        self._best[name] = min(seconds, self._best.get(name, seconds))
        return seconds
