"""Import and compile time of a deep model against a shallow one, weights aside.

A layer is imported and compiled once however many there are; what grows is their calls.

    python benchmarks/depth.py [--layers 2 30] [--rounds 3]
"""

import argparse
import statistics
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from rich.console import Console
from rich.table import Table
from torch_mlir import ir
from transformers import LlamaConfig

from llmc.frontend.importer import import_programs
from llmc.frontend.interception import IMPLEMENTATION
from llmc.frontend.loaded_model import build
from llmc.frontend.programs import VARIANTS, export_variant
from llmc.pipelines.driver.execution import run
from llmc.pipelines.iree import compile_module
from llmc.pipelines.pipeline import stages
from llmc.pipelines.targets.cpu import CPUTarget

STAGES = ("export", "import", "passes", "IREE", "all")


def measure(layers: int, output: Path) -> list[float]:
    """Seconds that each of STAGES takes for a small llama of so many layers."""
    config = LlamaConfig(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=512,
    )
    model, target = build(config, IMPLEMENTATION), CPUTarget()
    clock = [time.perf_counter()]
    variants = [export_variant(model, variant, 512) for variant in VARIANTS]
    clock.append(time.perf_counter())
    module = import_programs(variants, ir.Context())
    clock.append(time.perf_counter())
    for stage in stages("cpu", "f32"):
        run(stage.steps(), module)
    clock.append(time.perf_counter())
    compile_module(module, target, output)
    clock.append(time.perf_counter())
    return [*(after - before for before, after in pairwise(clock)), clock[-1] - clock[0]]


def main() -> None:
    """Measures in turns and prints medians, and the deep model's as multiples of the shallow's."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, nargs=2, default=(2, 30))
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if len({*options.layers}) < 2:
        parser.error("--layers takes two different numbers")
    runs: dict[int, list[list[float]]] = {layers: [] for layers in options.layers}
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "module.vmfb"
        measure(1, output)  # what happens in a process once
        for _ in range(options.rounds):
            for layers, taken in runs.items():
                taken.append(measure(layers, output))
    medians = {
        layers: [statistics.median(times) for times in zip(*taken, strict=True)]
        for layers, taken in runs.items()
    }
    table = Table("layers", *STAGES, title=f"seconds, median of {options.rounds}")
    for layers, seconds in medians.items():
        table.add_row(str(layers), *(f"{each:.2f}" for each in seconds))
    shallow, deep = medians.values()
    ratios = (f"{b / a:.2f}x" for a, b in zip(shallow, deep, strict=True))
    table.add_row("ratio", *ratios)
    Console().print(table)


if __name__ == "__main__":
    main()
