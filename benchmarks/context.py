"""What a decode step costs by the bundle's largest context, and by the tokens that are held.

The first must not matter; the second may, by as much as attention reads.

    python benchmarks/context.py [--contexts 512 8192] [--held 16 448] [--rounds 40]
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import llmc.runtime
from llmc.frontend.compile import compile_model
from llmc.frontend.options import CompileOptions
from llmc.frontend.source import SAMPLE, open_model
from llmc.runtime.runner import Runner


def prepare(context: int, held: int, folder: Path) -> Runner:
    """The sample model's engine with all of `context` allocated and `held` tokens in it."""
    with Console(stderr=True).status(f"compiling for {context} tokens"):
        compile_model(open_model(SAMPLE), CompileOptions(context=context), folder)
    engine = llmc.runtime.load(folder).engine
    engine.reset(1, context)
    engine.prefill(np.random.default_rng(0).integers(5, 40000, held).tolist(), 0)
    return engine


def step(engine: Runner, held: int) -> float:
    """Milliseconds of one decode step after `held` tokens."""
    begin = time.perf_counter()
    engine.decode([7], held, [0])
    return (time.perf_counter() - begin) * 1e3


def main() -> None:
    """Measures in turns and prints medians, each also as a multiple of the first."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--contexts", type=int, nargs="+", default=[512, 8192])
    parser.add_argument("--held", type=int, nargs="+", default=[16, 448])
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        engines = {
            context: prepare(context, max(options.held), Path(name) / str(context))
            for context in options.contexts
        }
        cases = [(context, held) for context in engines for held in options.held]
        times: dict[tuple[int, int], list[float]] = {case: [] for case in cases}
        for _ in range(options.rounds):
            for context, held in cases:
                times[context, held].append(step(engines[context], held))
    medians = {case: statistics.median(taken) for case, taken in times.items()}
    first = next(iter(medians.values()))
    table = Table("context", "tokens held", "ms", "", title=f"decode, median of {options.rounds}")
    for (context, held), median in medians.items():
        table.add_row(str(context), str(held), f"{median:.2f}", f"{median / first:.2f}x")
    Console().print(table)


if __name__ == "__main__":
    main()
