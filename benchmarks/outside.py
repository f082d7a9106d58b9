"""What a token costs beside the compiled module's own work: in Python, by how it is chosen.

Between two steps little of Python is left in the caches, for the weights went through them: these
are the times in a real text, not those of calls repeated.

    chrt -r 1 python benchmarks/outside.py BUNDLE [--tokens 100] [--rounds 7]
"""

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import llmc.runtime
from llmc.runtime.engine import Engine
from llmc.runtime.model import Model
from llmc.runtime.vm_function import VmFunction

PROMPT = "Tell me a story about a cat and a dog."
WAYS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "top-k 40": {"temperature": 1.0, "top_k": 40, "seed": 1},
    "top-k 40, top-p 0.9": {"temperature": 1.0, "top_k": 40, "top_p": 0.9, "seed": 1},
    "top-p 0.9": {"temperature": 1.0, "top_p": 0.9, "seed": 1},
    "all tokens": {"temperature": 1.0, "seed": 1},
}


class Stopwatch:
    """Sums up the seconds in the compiled functions of a model."""

    def __init__(self, model: Model) -> None:
        self.seconds = 0.0
        assert isinstance(model.engine, Engine)
        for function in model.engine._functions.values():
            self._watch(function)

    def _watch(self, function: VmFunction) -> None:
        context = function._context

        class Watched:
            @staticmethod
            def invoke(*arguments: object) -> None:
                begin = time.perf_counter()
                context.invoke(*arguments)
                self.seconds += time.perf_counter() - begin

        function._context = Watched


def measure(model: Model, watch: Stopwatch, tokens: int, options: dict[str, Any]) -> list[float]:
    """Microseconds of a token: in all, and outside of the compiled functions."""
    steps = model.stream(PROMPT, max_new_tokens=tokens + 1, **options)
    next(steps)
    watch.seconds, begin = 0.0, time.perf_counter()
    taken = sum(1 for _ in steps)
    whole = time.perf_counter() - begin
    return [1e6 * seconds / taken for seconds in (whole, whole - watch.seconds)]


def main() -> None:
    """Prints a line for each way, medians of all rounds but the first."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    model = llmc.runtime.load(arguments.bundle)
    watch = Stopwatch(model)
    table = Table("chosen by", "us a token", "outside", "share")
    for way, options in WAYS.items():
        runs = [measure(model, watch, arguments.tokens, options) for _ in range(arguments.rounds)]
        whole, outside = map(statistics.median, zip(*runs[1:], strict=True))
        table.add_row(way, f"{whole:.0f}", f"{outside:.0f}", f"{outside / whole:.1%}")
    Console().print(table)


if __name__ == "__main__":
    main()
