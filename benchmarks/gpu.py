"""A model on a GPU: the same text as on the CPU, and how fast beside PyTorch on that GPU.

For each type of weights and each batch, prefill and decode in tokens a second, contenders in turn
within one run, and decode as a share of what the memory's bandwidth allows. PyTorch takes part
where its build knows the GPU. With --graphs IREE launches commands as CUDA graphs, of which it
makes one of all that is recorded at once, and not one by one.

    python benchmarks/gpu.py MODEL [--device cuda] [--dtype f16,q4_0] [--batch 1,16] [--rounds 5]
                             [--graphs]
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import iree.runtime as rt
import torch
from rich.console import Console
from rich.table import Table

from llmc.frontend.compile import compile_model
from llmc.frontend.options import CompileOptions
from llmc.frontend.source import open_model
from llmc.runtime import Model, load

PROMPT = "Explain in a few sentences how a compiler turns a program into machine code."
PREFILL, DECODED = 128, 64

Run = Callable[[int], tuple[float, float]]
"""With so many sequences: tokens a second of prefill, and of decode."""


@dataclass(frozen=True)
class Contender:
    """Who runs, and the bytes of weights that a step reads."""

    name: str
    run: Run
    weight_bytes: int | None


def compiled(source: str, dtype: str, device: str, folder: Path) -> tuple[Model, Model]:
    """The model on the CPU and on the device, with the same weights, and a KV cache of float32."""
    options = CompileOptions(target=f"cpu,{device.partition(':')[0]}", dtype=dtype, kv_dtype="f32")
    with Console(stderr=True).status(f"compiling {dtype}"):
        compile_model(open_model(source), options, folder)
    return load(folder, device="cpu"), load(folder, device=device)


def agreement(on_cpu: Model, on_device: Model, tokens: int = 48) -> str:
    """How many tokens of a greedy text are the same."""
    texts = [m.generate(PROMPT, max_new_tokens=tokens).token_ids for m in (on_cpu, on_device)]
    pairs = list(zip(*texts, strict=False))
    same = next((at for at, (cpu, other) in enumerate(pairs) if cpu != other), len(pairs))
    return f"greedy text of {len(pairs)} tokens: the first {same} are the CPU's"


def llmc_run(model: Model) -> Run:
    """Through the engine of `llmc run`."""
    ids = [number % model.manifest.model.vocab_size for number in range(7, 7 + PREFILL)]

    def run(batch: int) -> tuple[float, float]:
        engine = model.engine
        engine.reset(batch, PREFILL + DECODED + 1)
        begin = time.perf_counter()
        tokens = [engine.prefill(ids, 0, sequence).best[0] for sequence in range(batch)]
        between = time.perf_counter()
        for step in range(DECODED):
            tokens = engine.decode(tokens, PREFILL + step, [0] * batch).best
        end = time.perf_counter()
        return batch * PREFILL / (between - begin), batch * DECODED / (end - between)

    return run


def torch_run(model: Any, vocabulary: int) -> Run:
    """Through transformers' own loop over a static KV cache, on the GPU."""
    from transformers import StaticCache

    @torch.no_grad()
    def run(batch: int) -> tuple[float, float]:
        ids = torch.arange(7, 7 + PREFILL, device="cuda").remainder(vocabulary).repeat(batch, 1)
        cache = StaticCache(config=model.config, max_cache_len=PREFILL + DECODED + 1)
        torch.cuda.synchronize()
        begin = time.perf_counter()
        logits = model(input_ids=ids, past_key_values=cache, use_cache=True).logits
        tokens = logits[:, -1:].argmax(-1)
        torch.cuda.synchronize()
        between = time.perf_counter()
        for step in range(DECODED):
            position = torch.full((batch, 1), PREFILL + step, device="cuda")
            logits = model(
                input_ids=tokens, position_ids=position, past_key_values=cache, use_cache=True
            ).logits
            tokens = logits[:, -1:].argmax(-1)
        torch.cuda.synchronize()
        end = time.perf_counter()
        return batch * PREFILL / (between - begin), batch * DECODED / (end - between)

    return run


def torch_contenders(source: str) -> list[Contender]:
    """PyTorch eager and compiled, in float16; none where it knows no CUDA device."""
    if not torch.cuda.is_available():
        return []
    loaded = open_model(source)
    model = loaded.skeleton("sdpa")
    model.load_state_dict(loaded.weights(), strict=False)
    model = model.half().cuda().eval()
    size = sum(weight.numel() * weight.element_size() for weight in model.parameters())
    vocabulary = loaded.config.vocab_size
    faster = torch.compile(model, mode="reduce-overhead")
    return [
        Contender("torch eager f16", torch_run(model, vocabulary), size),
        Contender("torch.compile f16", torch_run(faster, vocabulary), size),
    ]


def read_bytes_per_s() -> float | None:
    """What the GPU's memory gives a reduction over a gigabyte; None without PyTorch's help."""
    if not torch.cuda.is_available():
        return None
    values = torch.ones(1 << 28, device="cuda")
    best = float("inf")
    for _ in range(10):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        values.sum()
        torch.cuda.synchronize()
        best = min(best, time.perf_counter() - begin)
    return 4 * values.numel() / best


def main() -> None:
    """Prints the versions, how the texts agree, and a table for all types and batches."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", default="f16,q4_0")
    parser.add_argument("--batch", default="1,16")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--graphs", action="store_true")
    arguments = parser.parse_args()
    if arguments.graphs:
        rt.flags.parse_flags("--cuda_use_streams=false")  # read when IREE makes its driver
    console = Console()
    packages = ("iree-base-compiler", "iree-base-runtime", "torch", "transformers")
    console.print(*(f"{name} {version(name)}" for name in packages), sep=", ")
    with tempfile.TemporaryDirectory() as scratch:
        contenders = torch_contenders(arguments.model)
        for dtype in arguments.dtype.split(","):
            folder = Path(scratch) / dtype
            on_cpu, on_device = compiled(arguments.model, dtype, arguments.device, folder)
            console.print(f"{dtype}: {agreement(on_cpu, on_device)}")
            code = on_device.placement.code
            size = on_device.manifest.files[code.parameters].size
            contenders.insert(0, Contender(f"llmc {dtype}", llmc_run(on_device), size))
        for batch in map(int, arguments.batch.split(",")):
            console.print(measured(contenders, batch, arguments.rounds))


def measured(contenders: list[Contender], batch: int, rounds: int) -> Table:
    """Medians of all rounds but the first, in which drivers and torch.compile make their code."""
    figures: dict[str, list[tuple[float, float]]] = {each.name: [] for each in contenders}
    for _ in range(rounds + 1):
        for contender in contenders:
            figures[contender.name].append(contender.run(batch))
    bandwidth = read_bytes_per_s()
    table = Table("batch " + str(batch), "prefill tokens/s", "decode tokens/s", "of bandwidth")
    for contender in contenders:
        prefill, decode = (
            statistics.median(column) for column in zip(*figures[contender.name][1:], strict=True)
        )
        size = contender.weight_bytes
        share = decode / batch * size / bandwidth if bandwidth and size else None
        table.add_row(
            contender.name,
            f"{prefill:.0f}",
            f"{decode:.1f}",
            f"{share:.0%}" if share is not None else "",
        )
    return table


if __name__ == "__main__":
    main()
