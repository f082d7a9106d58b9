"""A layer of experts: llmc, IREE alone on transformers' code, and PyTorch, in one interleaved run.

"IREE, gathering" is transformers' `batched_mm`, which gathers a matrix for every row before it
multiplies; "PyTorch" is transformers' `grouped_mm`, eager, with all threads and with one (its
threads wait for one another, which is slow on a machine that has other work). The shape is
Qwen3-30B-A3B's, at half.

    python benchmarks/experts.py [--tokens 128 1] [--rounds 9] [--experts 64] [--top-k 8]
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import iree.runtime as rt
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.export import Dim
from torch_mlir import ir
from transformers import Qwen3MoeConfig
from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeExperts

from llmc.frontend.importer import import_programs
from llmc.frontend.interception import IMPLEMENTATION
from llmc.frontend.layers import Layers
from llmc.frontend.programs import Program, Variant, VariantPrograms
from llmc.pipelines.driver import execution
from llmc.pipelines.iree import compile_module
from llmc.pipelines.parameters import stored_parameters, write_archive
from llmc.pipelines.pipeline import StateStage, stages
from llmc.pipelines.targets.cpu import CPUTarget
from llmc.runtime.abi import DECODE, PARAMETER_SCOPE, PREFILL
from llmc.runtime.archive import map_archive
from llmc.runtime.devices import usable_cpus
from llmc.runtime.wakeup import without_preemption

NO_LAYERS = Layers("", (), (), ())
Run = Callable[..., object]


class Functional(nn.Module):
    """The experts as a function of their inputs and their weights."""

    experts: nn.Module

    def __init__(self, experts: nn.Module) -> None:
        super().__init__()
        self.__dict__["experts"] = experts  # not a submodule: its weights are arguments

    def forward(self, inputs: list[Tensor], weights: list[Tensor]) -> Tensor:
        """Calls the experts."""
        names = [name for name, _ in self.experts.named_parameters()]
        state = dict(zip(names, weights, strict=True))
        return torch.func.functional_call(self.experts, state, tuple(inputs))


def export(experts: Qwen3MoeExperts, name: str, tokens: int | None) -> VariantPrograms:
    """The experts as a program of one variant, for `tokens` tokens, None where open."""
    state = dict(experts.named_parameters())
    dims = {} if tokens else {0: Dim("tokens", min=2, max=4096)}
    exported = torch.export.export(
        Functional(experts),
        (example(experts.config, tokens or 7), [weight.detach() for weight in state.values()]),
        dynamic_shapes=([dims] * 3, [None] * len(state)),
    )
    program = Program(name, type(experts), exported, tuple(state))
    return VariantPrograms(Variant(name, 1, tokens), NO_LAYERS, program, ())


def example(config: Qwen3MoeConfig, tokens: int) -> list[Tensor]:
    """Hidden states, chosen experts and their weights, as by a router with random logits."""
    logits = torch.randn(tokens, config.num_experts)
    weights, chosen = logits.softmax(-1).topk(config.num_experts_per_tok, dim=-1)
    return [torch.randn(tokens, config.hidden_size), chosen, weights]


def compiled(experts: Qwen3MoeExperts, implementation: str, folder: Path) -> Run:
    """The experts compiled for the CPU; takes what `example` gives."""
    experts.config._experts_implementation = implementation
    with torch.no_grad():
        variants = [export(experts, PREFILL, None), export(experts, DECODE, 1)]
    module = import_programs(variants, ir.Context())
    for stage in stages("cpu", "f32"):
        if not isinstance(stage, StateStage):  # there is none
            execution.run(stage.steps(), module)
    folder.mkdir()
    compile_module(module, CPUTarget(), folder / "module.vmfb")
    write_archive(
        stored_parameters(module), dict(experts.named_parameters()), folder / "params.irpa"
    )
    return load(folder)


def load(folder: Path) -> Run:
    """A function that runs the compiled experts."""
    config = rt.Config("local-task")
    provider = map_archive(folder / "params.irpa").create_provider(PARAMETER_SCOPE)
    module = rt.VmModule.mmap(config.vm_instance, str(folder / "module.vmfb"))
    parameters = rt.create_io_parameters_module(config.vm_instance, provider)
    hal = rt.create_hal_module(config.vm_instance, config.device)
    context = rt.VmContext(config.vm_instance, modules=[parameters, hal, module])
    functions = {
        name: rt.FunctionInvoker(context, config.device, module.lookup_function(name))
        for name in (PREFILL, DECODE)
    }

    def run(inputs: list[Tensor]) -> Tensor:
        function = functions[DECODE if len(inputs[0]) == 1 else PREFILL]
        with without_preemption():
            return torch.from_numpy(function(*(tensor.numpy() for tensor in inputs)).to_host())

    return run


def in_pytorch(experts: Qwen3MoeExperts, threads: int) -> Run:
    """The experts in PyTorch; takes what `example` gives."""

    def run(inputs: list[Tensor]) -> Tensor:
        torch.set_num_threads(threads)
        experts.config._experts_implementation = "grouped_mm"
        return experts(*inputs)

    return run


def measure(ways: dict[str, Run], config: Qwen3MoeConfig, tokens: int, rounds: int) -> Table:
    """Runs all ways on the same inputs, other ones each round; a table, rates of the medians."""
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    work: list[tuple[float, float]] = []
    per_expert = 3 * config.hidden_size * config.moe_intermediate_size
    for _ in range(rounds):
        inputs = example(config, tokens)
        chosen = inputs[1]
        work.append((2 * chosen.numel() * per_expert, 4 * len(chosen.unique()) * per_expert))
        for way, run in ways.items():
            time.sleep(0.2)  # until the threads of the one before no longer spin
            begin = time.perf_counter()
            run(inputs)
            seconds[way].append(time.perf_counter() - begin)
    table = Table(f"{tokens} tokens", "ms", "best ms", "GFLOP/s", "GB/s of weights", "times llmc's")
    operations, read = (statistics.median(column) / 1e9 for column in zip(*work, strict=True))
    medians = {way: statistics.median(times) for way, times in seconds.items()}
    for way, median in medians.items():
        best = min(seconds[way])
        figures = (
            median * 1e3,
            best * 1e3,
            operations / median,
            read / median,
            median / medians["llmc"],
        )
        table.add_row(way, *(f"{figure:.1f}" for figure in figures))
    return table


def main() -> None:
    """Measures what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, nargs="+", default=[128, 1])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--experts", type=int, default=64)
    parser.add_argument("--top-k", type=int, default=8)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--inner", type=int, default=768)
    options = parser.parse_args()
    config = Qwen3MoeConfig(
        num_experts=options.experts,
        num_experts_per_tok=options.top_k,
        hidden_size=options.hidden,
        moe_intermediate_size=options.inner,
    )
    torch.manual_seed(0)
    experts = Qwen3MoeExperts(config).requires_grad_(False)
    for weight in experts.parameters():
        weight.normal_(0, 0.05)
    with tempfile.TemporaryDirectory() as name:
        ways = {
            "llmc": compiled(experts, IMPLEMENTATION, Path(name) / "llmc"),
            "IREE, gathering": compiled(experts, "batched_mm", Path(name) / "gathering"),
            f"PyTorch, {usable_cpus()} threads": in_pytorch(experts, usable_cpus()),
            "PyTorch, 1 thread": in_pytorch(experts, 1),
        }
        for tokens in options.tokens:
            measure(ways, config, tokens, 2)  # warms up
            Console().print(measure(ways, config, tokens, options.rounds))


if __name__ == "__main__":
    main()
