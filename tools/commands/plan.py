"""`llmc plan`: how to split a model among devices."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from llmc.frontend.output_folder import writing
from llmc.frontend.source import open_model
from llmc.frontend.toolchain import versions
from llmc.runtime import UserError
from llmc.runtime.heap import importing
from llmc.tools.arguments import (
    add_compile_options,
    add_verbose,
    compile_options,
    positive,
)
from llmc.tools.bundles import is_bundle
from llmc.tools.compiling import compiling
from llmc.tools.plan_report import facts, report
from llmc.tools.planned_devices import find_device
from llmc.tools.terminal import write

if TYPE_CHECKING:
    from llmc.frontend.planning import Planned
    from llmc.pipelines.sharding.search.device import Device

HELP = "find how to split a model among devices"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="a Hugging Face folder, a GGUF file, or smollm2, the sample",
    )
    parser.add_argument(
        "--device",
        dest="device_file",
        required=True,
        metavar="FILE",
        help="what one device has and how they are linked, or host: the ranks share this machine, "
        "which is measured",
    )
    parser.add_argument(
        "-o", dest="output", type=Path, metavar="FILE", help="write the plan, for compile --plan"
    )
    parser.add_argument(
        "--save-device", type=Path, metavar="FILE", help="write the device, such as host's"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    step = parser.add_argument_group("the step that is to be fast")
    step.add_argument(
        "--tokens-cached",
        type=positive,
        metavar="N",
        help="decode after N tokens (default 512, or half of a shorter context)",
    )
    step.add_argument("--batch", type=positive, default=1, metavar="N", help="of N sequences")
    step.add_argument("--prompt", type=positive, metavar="N", help="prefill of N tokens instead")
    wishes = parser.add_argument_group("what the plan must heed, for weights by their names")
    for name, meaning in (
        ("pin", "split it in dimension DIM, or whole"),
        ("forbid", "do not split it so"),
    ):
        wishes.add_argument(
            f"--{name}", action="append", default=[], metavar="PATTERN=DIM", help=meaning
        )
    wishes.add_argument(
        "--same",
        action="append",
        default=[],
        metavar="PATTERN,...",
        help="split them in the same dimension",
    )
    add_verbose(parser)
    add_compile_options(parser)


def run(arguments: argparse.Namespace) -> None:
    """Prints the plan, what it costs, and what others cost."""
    versions()
    if arguments.grid is None and arguments.plan is None:
        raise UserError("give the number of ranks or their grid with --grid, as 8 or tp=4,pp=2")
    if is_bundle(arguments):
        raise UserError(f"{arguments.model} is compiled already: plan the model it was made of")
    planned, device = _plan(arguments)
    for path, text in (
        (arguments.output, planned.best.plan.to_json()),
        (arguments.save_device, device.to_json()),
    ):
        if path is not None:
            with writing(path):
                path.write_text(text, encoding="utf-8")
    as_json = arguments.json
    write(json.dumps(facts(planned, device)) + "\n" if as_json else report(planned, device))


def _plan(arguments: argparse.Namespace) -> tuple[Planned, Device]:
    with compiling(arguments) as progress:
        with progress("start"), importing():
            planning = _load_planning()
            from llmc.frontend.compile import grid_of_options
            from llmc.pipelines.sharding.search.constraints import Constraints, Wish
        wishes = Constraints(
            tuple(map(Wish.parse, arguments.pin)),
            tuple(map(Wish.parse, arguments.forbid)),
            planning.same_of(arguments.same),
        )
        options = compile_options(arguments)
        grid = str(grid_of_options(options)) if options.plan else arguments.grid
        ranks = planning.parse_ranks(grid)
        count = ranks if isinstance(ranks, int) else ranks.size
        with progress("open"), importing():
            model = open_model(arguments.model, options.layers)
        cached = arguments.tokens_cached or planning.usual_cached(model, options)
        workload = planning.Workload(cached, arguments.batch, arguments.prompt)
        weights = planning.bytes_of_weights(model, options)
        device = find_device(arguments.device_file, count, weights)
        module = planning.readable_module(model, options, progress)
        search = planning.make_search(model, module, options, device, workload, wishes)
        return planning.find_plan(search, ranks), device


def _load_planning() -> ModuleType:
    try:
        # Here, for the other commands need neither PyTorch nor the compiler.
        from llmc.frontend import planning
    except ModuleNotFoundError as error:
        if error.name != "highspy":
            raise
        raise UserError("llmc plan needs pip install 'llmc-compiler[plan]'") from error
    return planning
