"""Predicted against measured time of a decode step, for plans of the sample model on this machine.

    python benchmarks/plans.py [--model smollm2] [--layers N] [--steps 30]

Prints both for each plan, and how well they agree in order (Spearman's rank correlation).
"""

import argparse
import statistics
import tempfile
import time
from dataclasses import replace
from math import prod
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import llmc.runtime
from llmc.frontend.bench.host_device import measure_host, shared
from llmc.frontend.compile import compile_model
from llmc.frontend.options import CompileOptions
from llmc.frontend.planning import Workload, make_search, readable_module
from llmc.frontend.source import open_model
from llmc.pipelines.sharding.search.constraints import Constraints, Wish
from llmc.pipelines.sharding.search.search import Found
from llmc.runtime.ranks.grid import Grid

CACHED = 64
MLP = ("*.gate_proj.weight", "*.up_proj.weight", "*.down_proj.weight")
ATTENTION = ("*.q_proj.weight", "*.k_proj.weight", "*.v_proj.weight", "*.o_proj.weight")
EMBEDDING = ("*.embed_tokens.weight",)
# A grid, and the weights that every rank has whole.
PLANS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("tp=2", ()),
    ("tp=3", ()),
    ("tp=4", ()),
    ("pp=2", ()),
    ("pp=3", ()),
    ("dp=2", ()),
    ("dp=3", ()),
    ("dp=2,tp=2", ()),
    ("pp=2,tp=2", ()),
    ("tp=2", MLP),
    ("tp=2", ATTENTION),
    ("tp=2", EMBEDDING),
    ("tp=3", MLP),
)


def measured(folder: Path, steps: int) -> float:
    """Median seconds of a decode step of the bundle in `folder`."""
    model = llmc.runtime.load(folder, local=True)
    model.engine.reset(1, CACHED + steps + 8)
    model.engine.prefill([1] * CACHED, 0)
    seconds = []
    for step in range(steps):
        begin = time.perf_counter()
        model.engine.decode([5], CACHED + step, [0])
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds[3:])


def rank_correlation(a: list[float], b: list[float]) -> float:
    """Spearman's."""
    orders = [np.argsort(np.argsort(each)) for each in (a, b)]
    return float(np.corrcoef(*orders)[0, 1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--steps", type=int, default=30)
    arguments = parser.parse_args()
    base = CompileOptions(context=512, layers=arguments.layers, no_tuning=True)
    model = open_model(arguments.model, arguments.layers)
    module, host = readable_module(model, base), measure_host()
    table = Table("grid", "whole on all ranks", "predicted", "measured", "sent")
    predicted, found = [], []
    for text, patterns in PLANS:
        grid = Grid.parse(text)
        wishes = Constraints(pin=tuple(Wish(pattern, None) for pattern in patterns))
        links = shared(host, grid.size).links
        device = replace(shared(host, _working(grid)), links=links)
        best = make_search(model, module, base, device, Workload(CACHED), wishes).solve(grid)
        assert isinstance(best, Found)
        with tempfile.TemporaryDirectory() as name:
            plan, bundle = Path(name) / "plan.json", Path(name) / "bundle"
            plan.write_text(best.plan.to_json())
            options = CompileOptions(
                context=512, layers=arguments.layers, no_tuning=True, plan=str(plan)
            )
            compile_model(model, options, bundle)
            found.append(measured(bundle, arguments.steps))
        predicted.append(best.cost.seconds)
        named = " ".join(pattern.split(".")[-2] for pattern in patterns)
        times = (f"{1e3 * each:.2f} ms" for each in (predicted[-1], found[-1]))
        table.add_row(text, named, *times, f"{best.moved[0]} B")
    Console().print(table)
    print(f"rank correlation {rank_correlation(predicted, found):.2f} over {len(found)} plans")


def _working(grid: Grid) -> int:
    """How many ranks work at the same time on one sequence, and share the machine then.

    Stages take turns, and replicas but the first rest.
    """
    return prod(axis.size for axis in grid.axes if axis.name not in ("pp", "dp"))


if __name__ == "__main__":
    main()
