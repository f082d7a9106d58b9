"""`llmc inspect`: what a bundle is."""

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from textwrap import wrap

from rich.filesize import decimal

from llmc.runtime.abi import GREEDY, GREEDY_BATCH, PREFILL
from llmc.runtime.errors import printable
from llmc.runtime.manifest import Manifest
from llmc.tools.terminal import write

HELP = "show what a bundle is"

_INDENT, _WIDTH = 14, 86


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("bundle", type=Path, metavar="BUNDLE", help="a bundle's folder")
    parser.add_argument("--json", action="store_true", help="print the manifest as JSON")
    parser.add_argument(
        "--verify", action="store_true", help="read all files and compare their SHA-256"
    )


def run(arguments: argparse.Namespace) -> None:
    """Prints the manifest. UserError for a damaged bundle."""
    manifest = Manifest.read(arguments.bundle)
    manifest.check_sizes(arguments.bundle)
    if arguments.verify:
        manifest.verify_hashes(arguments.bundle)
    if arguments.json:
        write(json.dumps(asdict(manifest), indent=2) + "\n")
        return
    for line in describe(manifest):
        write(f"{line}\n")
    if arguments.verify:
        write(_line("verified", "all files are as they were written") + "\n")


def describe(manifest: Manifest) -> Iterator[str]:
    """The manifest as lines for a person, without what could steer a terminal."""
    for name, value in _facts(manifest):
        yield _line(name, printable(value))


def _line(name: str, value: str) -> str:
    lines = wrap(value, _WIDTH, break_long_words=False, break_on_hyphens=False) or [""]
    return f"{name:<{_INDENT}}" + f"\n{'':{_INDENT}}".join(lines)


def _facts(manifest: Manifest) -> Iterator[tuple[str, str]]:
    model, compiled = manifest.model, manifest.compile
    yield "name", manifest.name
    yield "model", f"{model.family}, {model.layers} layers, hidden size {model.hidden_size}"
    yield "parameters", f"{model.parameters / 1e6:.1f} million, stored as {model.dtype}"
    yield "vocabulary", f"{model.vocab_size} tokens"
    yield "chat", "yes" if manifest.tokenizer.chat_template else "no chat template: use --raw"
    yield "context", f"{manifest.context} tokens"
    if manifest.grid:
        yield "grid", " ".join(f"{axis.name}={axis.size}" for axis in manifest.grid)
    for code in manifest.modules:
        target = code.target
        yield "target", f"{target.device} {target.arch} {target.name}"
        if manifest.grid:
            yield "  rank", f"{code.rank}"
        yield "  code", f"{code.module} with {code.parameters}"
        context_bytes = code.kv_bytes(manifest.context)
        weights = decimal(manifest.files[code.parameters].size)
        yield "  memory", f"{weights} for weights, {decimal(context_bytes)} for a full KV cache"
        types = (f"{decimal(count)} in {type_}" for type_, count in code.types_by_bytes)
        yield "  weights", ", ".join(types)
        yield "  dispatches", _dispatches(code.dispatches)
        yield "  features", " ".join(target.features) or "none beyond its architecture's"
    for name, file in manifest.files.items():
        yield "file", f"{name}, {decimal(file.size)}"
    for package, version in manifest.versions.items():
        yield "made by", f"{package} {version}"
    options = " ".join(f"{key}={value}" for key, value in compiled.options.items())
    yield "options", options
    yield "tuned", f"{compiled.tuned_kernels} kernels, by llmc tune"
    stages = ", ".join(f"{stage.name} {stage.seconds:.1f}" for stage in compiled.stages)
    yield "compiled", f"in {compiled.seconds:.1f} s ({stages})"


def _dispatches(counts: dict[str, int]) -> str:
    of_one = f"{counts[GREEDY]} for each token decoded"
    others = {GREEDY_BATCH: "of several sequences at once", PREFILL: "for a prompt"}
    return ", ".join(
        [of_one, *(f"{counts[of]} {text}" for of, text in others.items() if of in counts)]
    )
