"""Decode steps of several bundles in turns, by how fast memory was meanwhile.

A virtual machine's threads move: two cores of one die share its link to memory, two of different
dies have one each and hear of each other four times as late. What helps in one state may cost in
the other, so that a median over both says little. Where a bundle's memory lies counts, too: one and
the same, loaded twice, was seen to differ by 6% with several sequences. Give them in both orders.

    python benchmarks/turns.py BUNDLE BUNDLE.. [--sequences 1] [--held 16] [--seconds 60]
"""

import argparse
import random
import statistics
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import llmc.runtime
from llmc.frontend.bench.machine import Machine
from llmc.runtime.devices import usable_cpus
from llmc.runtime.manifest import PARAMETERS
from llmc.runtime.runner import Runner

STEPS = 64
BAND = 20
"""GB/s that memory may differ by among rounds that are counted together."""


def prepare(bundle: Path, sequences: int, held: int) -> Runner:
    """An engine with `held` tokens in its cache of each sequence, and room for `STEPS` more."""
    engine = llmc.runtime.load(bundle).engine
    engine.reset(sequences, held + STEPS)
    prompt = np.random.default_rng(0).integers(5, engine.room.vocabulary, held).tolist()
    if sequences == 1:
        engine.prefill(prompt, 0)
    else:
        engine.prefill_batch([prompt] * sequences, [0] * sequences)
    return engine


def step(engine: Runner, sequences: int, held: int) -> float:
    """Milliseconds of a greedy step, in the mean of `STEPS`."""
    last, past = [7] * sequences, held
    begin = time.perf_counter()
    while past < held + STEPS:
        steps = engine.greedy(last, past, [0] * sequences, min(8, held + STEPS - past))
        past, last = past + len(steps), steps[-1]
    return (time.perf_counter() - begin) / STEPS * 1e3


def main() -> None:
    """Prints medians, each also as a multiple of the first bundle's of the same round."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bundles", type=Path, nargs="+")
    parser.add_argument("--sequences", type=int, default=1)
    parser.add_argument("--held", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()
    size = (options.bundles[0] / PARAMETERS).stat().st_size
    machine = Machine(size, usable_cpus())
    engines = [prepare(path, options.sequences, options.held) for path in options.bundles]
    rounds: dict[int, list[list[float]]] = defaultdict(list)
    end = time.monotonic() + options.seconds
    while time.monotonic() < end:
        taken = [0.0] * len(engines)
        before = machine.read_bytes_per_s()
        for number in random.sample(range(len(engines)), len(engines)):
            taken[number] = step(engines[number], options.sequences, options.held)
        bands = {int(speed / 1e9 / BAND) for speed in (before, machine.read_bytes_per_s())}
        if len(bands) == 1:
            rounds[bands.pop()].append(taken)
    table = Table("memory", "rounds", "bundle", "ms a step", "is")
    for band, each in sorted(rounds.items()):
        for number, bundle in enumerate(options.bundles):
            table.add_row(
                f"{band * BAND} to {(band + 1) * BAND} GB/s",
                str(len(each)),
                bundle.name,
                f"{statistics.median(taken[number] for taken in each):.3f}",
                f"{statistics.median(taken[number] / taken[0] for taken in each):.3f}x",
            )
    Console().print(table)


if __name__ == "__main__":
    main()
