"""llmc against IREE alone on the same graph: the sample model, float32, in one interleaved run.

IREE alone: the same import, lowered to plain linalg, layers inlined, `--iree-opt-level=O3`; what
llmc adds is the layout of weights, the kernel of attention and one function for all layers.

    python benchmarks/against_iree.py [--rounds 5] [--prompt 128] [--new 32]
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from torch_mlir import ir

from llmc.frontend.importer import import_programs
from llmc.frontend.interception import IMPLEMENTATION
from llmc.frontend.programs import VARIANTS, export_variant
from llmc.frontend.source import SAMPLE, open_model
from llmc.pipelines.driver.execution import run
from llmc.pipelines.iree import compile_module
from llmc.pipelines.parameters import stored_parameters, write_archive
from llmc.pipelines.passes.attend_in_place import AttendInPlace
from llmc.pipelines.passes.base import layer_functions
from llmc.pipelines.passes.pack_weights import PackWeights
from llmc.pipelines.pipeline import stages
from llmc.pipelines.targets.cpu import CPUTarget
from llmc.runtime.devices import usable_cpus
from llmc.runtime.engine import Engine


def build(model, folder: Path, alone: bool) -> tuple[Engine, float]:
    """Compiles the model; the engine and the seconds that IREE took."""
    skeleton = model.skeleton(IMPLEMENTATION)
    variants = [export_variant(skeleton, variant, 2048) for variant in VARIANTS]
    module = import_programs(variants, ir.Context())
    for stage in stages("cpu", "f32"):
        ours = PackWeights | AttendInPlace
        run([step for step in stage.steps() if not (alone and isinstance(step, ours))], module)
    if alone:
        for function in layer_functions(module):
            del function.attributes["noinline"]
    folder.mkdir()
    begin = time.perf_counter()
    compile_module(module, CPUTarget(), folder / "module.vmfb")
    seconds = time.perf_counter() - begin
    weights = {**dict(skeleton.named_buffers()), **model.weights()}
    write_archive(stored_parameters(module), weights, folder / "params.irpa")
    return Engine(folder / "module.vmfb", folder / "params.irpa", usable_cpus()), seconds


def measure(engine: Engine, prompt: int, new: int) -> tuple[float, float]:
    """Tokens per second of prefill and of decode."""
    engine.reset(1, prompt + new + 1)
    ids = list(np.random.default_rng(0).integers(5, 40000, prompt))
    begin = time.perf_counter()
    token = engine.prefill(ids, 0).best[0]
    middle = time.perf_counter()
    for step in range(new):
        token = engine.decode([token], prompt + step, [0]).best[0]
    return prompt / (middle - begin), new / (time.perf_counter() - middle)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--new", type=int, default=32)
    options = parser.parse_args()
    model = open_model(SAMPLE)
    with tempfile.TemporaryDirectory() as name:
        engines = {
            "llmc": build(model, Path(name) / "llmc", alone=False),
            "IREE alone": build(model, Path(name) / "iree", alone=True),
        }
        runs: dict[str, list[tuple[float, float]]] = {label: [] for label in engines}
        for _ in range(options.rounds + 1):
            for label, (engine, _seconds) in engines.items():
                runs[label].append(measure(engine, options.prompt, options.new))
    table = Table("", "IREE compile s", "prefill tokens/s", "decode tokens/s")
    medians = {}
    for label, (_engine, seconds) in engines.items():
        medians[label] = [
            statistics.median(column) for column in zip(*runs[label][1:], strict=True)
        ]
        table.add_row(label, f"{seconds:.1f}", *(f"{value:.1f}" for value in medians[label]))
    ratios = [ours / theirs for ours, theirs in zip(*medians.values(), strict=True)]
    table.add_row("ratio", "", *(f"{ratio:.2f}" for ratio in ratios))
    Console().print(table)


if __name__ == "__main__":
    main()
