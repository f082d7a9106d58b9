"""How long it takes to find a plan for a llama of 32 layers, by the number of devices.

python benchmarks/planning.py [--ranks 8 1024]
"""

import argparse
import time

from rich.console import Console
from rich.table import Table
from torch_mlir import ir
from transformers import LlamaConfig

from llmc.frontend.importer import import_programs
from llmc.frontend.interception import IMPLEMENTATION
from llmc.frontend.loaded_model import build
from llmc.frontend.planning import find_plan
from llmc.frontend.programs import Variant, export_variant
from llmc.pipelines.driver.execution import run
from llmc.pipelines.pipeline import ImportStage, ShardStage
from llmc.pipelines.sharding.search.cost import Step
from llmc.pipelines.sharding.search.device import Device, Link
from llmc.pipelines.sharding.search.search import Search
from llmc.runtime import abi

# 8 GPUs in a node, and nodes in a network.
DEVICE = Device(24 * 10**9, 1e12, {"f32": 6e13}, (Link(8, 5e-6, 2e11), Link(1 << 20, 2e-5, 2.5e10)))


def decode_module() -> ir.Module:
    """The decode step of a llama of 8 billion weights, as `annotate-shardings` finds it."""
    config = LlamaConfig(
        hidden_size=4096,
        intermediate_size=14336,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=8,
        vocab_size=128256,
    )
    decode = Variant(abi.DECODE, batch=1, tokens=1)
    model = build(config, IMPLEMENTATION)
    module = import_programs([export_variant(model, decode, 8192)], ir.Context())
    run(ImportStage().steps(), module)
    run(ShardStage().before_annotations(), module)
    return module


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=(8, 64, 1024))
    options = parser.parse_args()
    module = decode_module()
    table = Table("ranks", "grids", "seconds", "best", "step", "memory of a rank")
    for ranks in options.ranks:
        begin = time.perf_counter()
        search = Search(module, DEVICE, Step(abi.DECODE, 1, 4096, 8192, "f32", 4.0))
        best = find_plan(search, ranks).best
        table.add_row(
            str(ranks),
            str(len(list(search.grids(ranks)))),
            f"{time.perf_counter() - begin:.2f}",
            str(best.plan.grid),
            f"{best.cost.seconds * 1e3:.2f} ms",
            f"{max(best.memory) / 1e9:.2f} GB",
        )
    Console().print(table)


if __name__ == "__main__":
    main()
