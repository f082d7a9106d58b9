"""`llmc bench`: llmc and its peers on the same model, in turns."""

from __future__ import annotations

import argparse
import json
import os
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from llmc.frontend.bench.bench import Field, bench, open_field
from llmc.frontend.bench.contender import Case
from llmc.frontend.bench.entrants import OURS, PEERS, Entrant, ours, peers
from llmc.frontend.bench.kernels import KernelTime, profile
from llmc.frontend.bench.machine import Bounds, Machine
from llmc.frontend.bench.plot import plot, require_matplotlib
from llmc.frontend.bench.report import Row, table
from llmc.frontend.bench.roofline import Point, roofline
from llmc.frontend.bench.roofline import table as roofline_table
from llmc.frontend.source import open_model
from llmc.frontend.toolchain import versions
from llmc.runtime import UserError, abi
from llmc.runtime.devices import host_cpu_name, usable_cpus
from llmc.runtime.engine import PREFILL_CHUNK
from llmc.runtime.manifest import Manifest
from llmc.runtime.placement import cpu_refuses
from llmc.tools.arguments import (
    add_compile_options,
    add_dump_ir,
    add_model,
    add_run_options,
    add_verbose,
    compile_options,
    positive,
)
from llmc.tools.bundles import find_bundle, is_bundle
from llmc.tools.tables import write_table
from llmc.tools.terminal import note, write

if TYPE_CHECKING:
    from llmc.frontend.loaded_model import LoadedModel

HELP = "measure a model beside llama.cpp and others"

_KERNELS_SHOWN = 15

_LEAST_READ = 16 << 20
"""Bytes that take far longer to read than it takes to begin: fewer would tell of that alone."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    add_model(parser)
    parser.add_argument(
        "--against",
        type=_names,
        metavar="NAME,...",
        help=f"who else to run: {', '.join(PEERS)} (default: all that are installed)",
    )
    parser.add_argument(
        "--prompt",
        type=_numbers,
        default=[16, 128, 512],
        metavar="N,...",
        help="tokens of the prompt (default 16,128,512)",
    )
    parser.add_argument(
        "--gen", type=positive, default=64, metavar="N", help="tokens to generate (default 64)"
    )
    parser.add_argument(
        "--batch",
        type=_numbers,
        default=[1, 8],
        metavar="N,...",
        help="sequences at once (default 1,8)",
    )
    parser.add_argument(
        "--held",
        type=_numbers,
        default=[],
        metavar="N,...",
        help="tokens in the cache before decoding, where that is more than the prompt",
    )
    parser.add_argument(
        "--rounds",
        type=positive,
        default=3,
        metavar="N",
        help="how often, after a round that warms up (default 3)",
    )
    parser.add_argument(
        "--plot", type=Path, metavar="FILE.png", help="draw the roofline of our kernels"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end")
    add_run_options(parser)
    add_verbose(parser)
    add_dump_ir(parser)
    add_compile_options(parser)


def run(arguments: argparse.Namespace) -> None:
    """Prints a table for each configuration, or one JSON object for all."""
    versions()
    if arguments.plot is not None:
        _check_plot(arguments.plot)
    if arguments.grid or arguments.plan:
        raise UserError("llmc bench measures a model on one device: leave out --grid and --plan")
    if not is_bundle(arguments):
        _check_targets(compile_options(arguments).target)
    threads = arguments.threads or usable_cpus()
    cases = _cases(arguments)
    source = None if is_bundle(arguments) else open_model(arguments.model)
    others = _peers(arguments, source, threads)
    unreadable = _who_cannot_read(arguments) if source is None else {}
    _check_lengths(arguments, source, cases)
    folder, _ = find_bundle(arguments)
    manifest = Manifest.read(folder)
    rows: list[Row] = []
    with ExitStack() as stack:
        present = open_field([ours(folder, threads), *others], stack, note)
        present.missing.update(unreadable)
        read_bytes = present.facts[OURS].weight_bytes or manifest.model.parameters
        machine = Machine(max(read_bytes, _LEAST_READ), threads)
        vocabulary = manifest.model.vocab_size
        for some in bench(present, cases, arguments.rounds, vocabulary, machine):
            rows += some
            if not arguments.json:
                write_table(table(some))
    times = _kernel_times(folder, cases, threads)
    bounds = machine.bounds()
    points = [
        point
        for (function, tokens, past), kernels in times.items()
        for point in roofline(function, tokens, past, manifest.model, kernels, bounds)
    ]
    if arguments.json:
        facts = _facts(arguments, threads, bounds, present, rows, points)
        write(json.dumps(facts, indent=2) + "\n")
    else:
        _write_rooflines(points)
    if arguments.plot is not None:
        plot(points, bounds, arguments.plot)


def _check_plot(path: Path) -> None:
    """UserError where no picture can be drawn, or written to `path`, for to measure takes long."""
    require_matplotlib()
    if not path.parent.is_dir():
        raise UserError(f"there is no folder {path.parent} for the plot")
    if path.is_dir():
        raise UserError(f"{path} is a folder: name a file in it for the plot")
    if not os.access(path.parent, os.W_OK):
        raise UserError(f"cannot write into {path.parent}, where the plot is to be")


def _check_targets(text: str) -> None:
    """UserError where none of them is a CPU whose code runs here, for to compile takes long."""
    # Here, for its help needs no compiler.
    from llmc.pipelines.targets.parse import parse_target, split_targets

    cpus = [name for name in split_targets(text) if name.partition(":")[0] == "cpu"]
    if not cpus:
        raise UserError("llmc bench measures code for a CPU: have --target name one, too")
    refusals = {name: cpu_refuses(parse_target(name).facts) for name in cpus}
    if all(refusals.values()):
        raise UserError(f"code for {cpus[0]} cannot be measured here: {refusals[cpus[0]]}")


def _write_rooflines(points: list[Point]) -> None:
    for function in dict.fromkeys(point.function for point in points):
        of_function = [point for point in points if point.function == function]
        write_table(roofline_table(of_function, _KERNELS_SHOWN))


def _numbers(text: str) -> list[int]:
    return [positive(number) for number in text.split(",")]


def _names(text: str) -> list[str]:
    names = list(dict.fromkeys(text.split(",")))
    if unknown := [name for name in names if name not in PEERS]:
        raise argparse.ArgumentTypeError(
            f"there is no contender {unknown[0]!r}: choose from {', '.join(PEERS)}"
        )
    return names


def _peers(
    arguments: argparse.Namespace, source: LoadedModel | None, threads: int
) -> list[Entrant]:
    if source is None:
        return []
    options = compile_options(arguments)
    return peers(arguments.against or PEERS, arguments.model, options, source.storage, threads)


def _who_cannot_read(arguments: argparse.Namespace) -> dict[str, str]:
    """Those who would run if the model were no bundle, and why they do not."""
    reason = f"others cannot read the bundle {arguments.model}"
    note(f"nobody else is run: {reason}: give the model it was compiled from")
    return dict.fromkeys(arguments.against or PEERS, reason)


def _cases(arguments: argparse.Namespace) -> list[Case]:
    """All combinations, without those that are the same."""
    combined = product(arguments.prompt, arguments.batch, arguments.held or [0])
    cases = [
        Case(prompt, arguments.gen, batch, held if held > prompt else 0)
        for prompt, batch, held in combined
    ]
    return list(dict.fromkeys(cases))


def _check_lengths(
    arguments: argparse.Namespace, source: LoadedModel | None, cases: list[Case]
) -> None:
    """UserError where a case has more tokens than the context."""
    if source is None:
        context = most = Manifest.read(Path(arguments.model)).context
    else:
        # Here, for it brings PyTorch, of which a bundle has no need.
        from llmc.frontend.lowering import context_bound

        context, most = context_bound(source, compile_options(arguments)), source.context
    longest = max(case.capacity for case in cases)
    if longest > context:
        longer = ", or a longer --context" if longest <= most else ""
        raise UserError(
            f"{longest} tokens are more than the context of {context}: "
            f"give a shorter --prompt, --held or --gen{longer}"
        )


def _kernel_times(
    folder: Path, cases: list[Case], threads: int
) -> dict[tuple[str, int, int], list[KernelTime]]:
    """By function, tokens and tokens held: of decoding after the first case, and of a prompt.

    Of the longest one the first piece.
    """
    longest = max(min(max(case.prompt for case in cases), PREFILL_CHUNK), 2)
    calls = [(abi.GREEDY, 1, cases[0].cached), (abi.PREFILL, longest, 0)]
    return {call: profile(folder, *call, threads) for call in calls}


def _facts(
    arguments: argparse.Namespace,
    threads: int,
    bounds: Bounds,
    present: Field,
    rows: list[Row],
    points: list[Point],
) -> dict[str, object]:
    return {
        "model": str(Path(arguments.model)),
        "machine": {"cpu": host_cpu_name(), "threads": threads, **vars(bounds)},
        "rounds": arguments.rounds,
        "contenders": {name: vars(facts) for name, facts in present.facts.items()},
        "missing": present.missing,
        "results": [row.as_json() for row in rows],
        "kernels": [point.as_json() for point in points],
    }
