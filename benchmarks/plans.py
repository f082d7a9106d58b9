"""Predicted against measured time of a decode step, for plans of models on this machine.

    python benchmarks/plans.py [--shapes sample wide vocabulary] [--dtype f32] [--steps 40]

Some twenty minutes for all shapes: each plan is found, compiled and measured twice. In f32 the
models have more weights than caches hold, as those have that need a plan. Prints both times for
each plan, and how well they agree in order (Spearman's rank correlation), as the two measurements
do. Plans that pin what weights in blocks do not allow, or that do not fit, are left out.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from transformers import LlamaConfig, PreTrainedConfig, Qwen3Config

import llmc.runtime
from llmc.frontend.bench.host_device import measure_host
from llmc.frontend.compile import compile_model
from llmc.frontend.loaded_model import LoadedModel, build, untied_state
from llmc.frontend.options import DTYPES, CompileOptions
from llmc.frontend.planning import (
    Workload,
    bytes_of_weights,
    make_search,
    readable_module,
)
from llmc.frontend.source import open_model
from llmc.pipelines.sharding.search.constraints import Constraints, Wish
from llmc.pipelines.sharding.search.search import Found
from llmc.runtime.errors import UserError
from llmc.runtime.ranks.grid import Grid

CACHED = 64
MLP = ("*.gate_proj.weight=whole", "*.up_proj.weight=whole", "*.down_proj.weight=whole")
ATTENTION = tuple(f"*.{name}_proj.weight=whole" for name in "qkvo")
SUMS = ("*.o_proj.weight=1", "*.down_proj.weight=1")
GATHERED = ("*.o_proj.weight=0", "*.down_proj.weight=0")
# A grid, and what is pinned.
PLANS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("tp=2", ()),
    ("tp=3", ()),
    ("tp=4", ()),
    ("pp=2", ()),
    ("pp=3", ()),
    ("dp=2", ()),
    ("dp=2,tp=2", ()),
    ("pp=2,tp=2", ()),
    ("tp=2", SUMS),
    ("tp=2", GATHERED),
    ("tp=2", MLP),
    ("tp=2", ATTENTION),
    ("tp=2", ("*.embed_tokens.weight=whole",)),
    ("tp=3", MLP),
    ("tp=4", GATHERED),
)


def random_model(kind: type[PreTrainedConfig], **sizes: int) -> LoadedModel:
    """A model of these sizes with the sample's tokenizer, whose head is its embedding."""
    config = kind(tie_word_embeddings=True, **sizes)
    model = build(config).requires_grad_(False)
    for weight in model.parameters():
        weight.normal_(0, 0.02)
    return replace(
        open_model("smollm2"),
        config=config,
        weights=lambda: untied_state(model),
        formats={},
        read_blocks=None,
    )


SHAPES: dict[str, Callable[[], LoadedModel]] = {
    "sample": lambda: open_model("smollm2"),
    # As Qwen3-0.6B, with fewer layers and words.
    "wide": lambda: random_model(
        Qwen3Config,
        hidden_size=1024,
        intermediate_size=3072,
        num_hidden_layers=12,
        num_attention_heads=16,
        num_key_value_heads=8,
        vocab_size=32000,
    ),
    "vocabulary": lambda: random_model(
        LlamaConfig,
        hidden_size=768,
        intermediate_size=2048,
        num_hidden_layers=4,
        num_attention_heads=12,
        num_key_value_heads=4,
        vocab_size=128256,
    ),
}
# Measured once for each number of ranks and size of the weights.
host = cache(measure_host)


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
    first, second = (np.argsort(np.argsort(each)) for each in (a, b))
    return float(np.corrcoef(first, second)[0, 1])


def compare(
    model: LoadedModel, options: CompileOptions, steps: int
) -> tuple[Table, list[tuple[float, float, float]]]:
    """A table of PLANS for `model`, and the seconds predicted and twice measured for each."""
    module, size = readable_module(model, options), bytes_of_weights(model, options)
    table = Table("grid", "pinned", "predicted", "measured", "again", "sent")
    rows = []
    for text, pins in PLANS:
        grid = Grid.parse(text)
        wishes = Constraints(pin=tuple(map(Wish.parse, pins)))
        device = host(grid.size, size)
        search = make_search(model, module, options, device, Workload(CACHED), wishes)
        try:
            best = search.solve(grid)
        except UserError:
            continue
        if not isinstance(best, Found):
            continue
        with tempfile.TemporaryDirectory() as name:
            plan, bundle = Path(name) / "plan.json", Path(name) / "bundle"
            plan.write_text(best.plan.to_json())
            compile_model(model, replace(options, plan=str(plan)), bundle)
            rows.append((best.cost.seconds, measured(bundle, steps), measured(bundle, steps)))
        times = (f"{1e3 * each:.2f} ms" for each in rows[-1])
        table.add_row(text, " ".join(pins), *times, f"{best.moved[0]} B")
    return table, rows


def say(rows: list[tuple[float, float, float]]) -> str:
    """How well the columns agree."""
    predicted, first, again = map(list, zip(*rows, strict=True))
    means = [(a + b) / 2 for a, b in zip(first, again, strict=True)]
    return (
        f"rank correlation {rank_correlation(predicted, means):.2f} over {len(rows)} plans, "
        f"{rank_correlation(first, again):.2f} of the two measurements"
    )


def main() -> None:
    """Measures what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=[*SHAPES])
    parser.add_argument("--dtype", choices=DTYPES, default="f32")
    parser.add_argument("--steps", type=int, default=40)
    arguments = parser.parse_args()
    options = CompileOptions(context=512, dtype=arguments.dtype, no_tuning=True)
    all_rows = []
    for shape in arguments.shapes:
        table, rows = compare(SHAPES[shape](), options, arguments.steps)
        all_rows += rows
        table.title = shape
        Console().print(table)
        print(say(rows), flush=True)
    print(f"all shapes: {say(all_rows)}")


if __name__ == "__main__":
    main()
