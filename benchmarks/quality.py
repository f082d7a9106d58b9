"""What a bundle's arithmetic costs in quality, against PyTorch with the same weights in float32.

Perplexity on one text, by default this project's licence, and greedy continuations of pieces of it.
Where two continuations part, the gap between PyTorch's two candidates shows how nearly they tie.

    python benchmarks/quality.py [MODEL] [--dtype as-is] [--text FILE] [--tokens 2048] [--new 48]
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from transformers import PreTrainedModel

import llmc.runtime
from llmc.frontend.cache import cached_bundle
from llmc.frontend.options import CompileOptions
from llmc.frontend.source import SAMPLE, open_model
from llmc.runtime.model import Model

LICENSE = Path(__file__).parent.parent / "LICENSE"
_PIECE = 64
"""Tokens of the text that a greedy continuation begins with."""


@dataclass(frozen=True)
class Parting:
    """Where two greedy continuations part: after so many tokens, and PyTorch's logits there."""

    after: int
    gap: float
    spread: float


def perplexity(logits: np.ndarray, ids: list[int]) -> float:
    """Of tokens `ids [T]` by the `logits [T, V]` after each; the first token is given."""
    wide = logits[:-1].astype(np.float64)
    peak = wide.max(-1, keepdims=True)
    totals = np.log(np.exp(wide - peak).sum(-1)) + peak[:, 0]
    return float(np.exp((totals - wide[np.arange(len(ids) - 1), ids[1:]]).mean()))


@torch.no_grad()
def torch_logits(model: PreTrainedModel, ids: list[int]) -> np.ndarray:
    """PyTorch's logits `[T, V]` after each token."""
    return model(torch.tensor([ids]), use_cache=False).logits[0].numpy()


@torch.no_grad()
def parting(model: PreTrainedModel, compiled: Model, ids: list[int], new: int) -> Parting | None:
    """Where `new` greedy tokens of both part after `ids`; None where they do not."""
    ours: list[int] = []
    compiled.engine.reset(1, len(ids) + new)
    output = compiled.engine.prefill(ids, 0)
    for past in range(len(ids), len(ids) + new):
        ours.append(output.best[0])
        output = compiled.engine.decode(ours[-1:], past, [0])
    theirs = torch_logits(model, ids + ours)[len(ids) - 1 : -1]
    for after, (token, row) in enumerate(zip(ours, theirs, strict=True)):
        best = row.max()
        if row[token] < best:
            return Parting(after, float(best - row[token]), float(best - row.min()))
    return None


def main() -> None:
    """Prints both perplexities, their ratio, and where greedy texts part."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default=SAMPLE)
    parser.add_argument("--dtype", default="as-is")
    parser.add_argument("--text", type=Path, default=LICENSE)
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--new", type=int, default=48)
    options = parser.parse_args()
    console = Console()

    source = open_model(options.model)
    model = source.skeleton("sdpa")
    model.load_state_dict(source.weights(), strict=False)
    model.tie_weights()
    bundle = cached_bundle(options.model, CompileOptions(dtype=options.dtype)).folder
    compiled = llmc.runtime.load(bundle)
    ids = compiled.encode(options.text.read_text(encoding="utf-8"), raw=True)[: options.tokens]

    ours = perplexity(compiled.logits(ids, every=True), ids)
    theirs = perplexity(torch_logits(model, ids), ids)
    table = Table("", "perplexity", title=f"{options.text.name}, {len(ids)} tokens")
    table.add_row(f"llmc, {compiled.manifest.model.dtype}", f"{ours:.4f}")
    table.add_row("PyTorch, float32", f"{theirs:.4f}")
    table.add_row("ratio", f"{ours / theirs:.4f}")
    console.print(table)

    table = Table("begins at", "parts after", "gap of logits", "their spread", title="greedy text")
    for begin in range(0, len(ids) - _PIECE, max(len(ids) // 8, 1)):
        parted = parting(model, compiled, ids[begin : begin + _PIECE], options.new)
        found = (
            (str(parted.after), f"{parted.gap:.3f}", f"{parted.spread:.1f}")
            if parted
            else ("never", "", "")
        )
        table.add_row(str(begin), *found)
    console.print(table)


if __name__ == "__main__":
    main()
