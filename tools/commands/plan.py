"""`llmc plan`: how to split a model among devices."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from llmc.frontend.output_folder import writing
from llmc.frontend.source import open_model
from llmc.frontend.toolchain import versions
from llmc.runtime import UserError
from llmc.tools.arguments import (
    add_compile_options,
    add_model,
    add_verbose,
    compile_options,
    positive,
)
from llmc.tools.bundles import compiling
from llmc.tools.planned_devices import find_device
from llmc.tools.terminal import write

if TYPE_CHECKING:
    from llmc.frontend.planning import Planned
    from llmc.pipelines.sharding.search.device import Device
    from llmc.pipelines.sharding.search.search import Found

HELP = "find how to split a model among devices"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    add_model(parser)
    parser.add_argument(
        "--device",
        dest="device_file",
        required=True,
        metavar="FILE",
        help="what one device has and how they are linked, or host: the ranks share this machine",
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
        default=512,
        metavar="N",
        help="decode after N tokens (default 512)",
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
    if arguments.grid is None:
        raise UserError("give the number of ranks or their grid with --grid, as 8 or tp=4,pp=2")
    planned = _plan(arguments)
    if arguments.output is not None:
        with writing(arguments.output):
            arguments.output.write_text(planned.best.plan.to_json(), encoding="utf-8")
    write(json.dumps(_facts(planned)) + "\n" if arguments.json else _text(planned))


def _plan(arguments: argparse.Namespace) -> Planned:
    # Here, for the other commands need neither PyTorch nor the compiler.
    with compiling(arguments) as progress:
        with progress("start"):
            try:
                from llmc.frontend.planning import (
                    Workload,
                    find_plan,
                    make_search,
                    readable_module,
                    same_of,
                )
            except ModuleNotFoundError as error:
                if error.name != "highspy":
                    raise
                raise UserError("llmc plan needs pip install 'llmc-compiler[plan]'") from error
            from llmc.pipelines.sharding.search.constraints import Constraints, Wish
        wishes = Constraints(
            tuple(map(Wish.parse, arguments.pin)),
            tuple(map(Wish.parse, arguments.forbid)),
            same_of(arguments.same),
        )
        options, device = compile_options(arguments), _device(arguments)
        with progress("open"):
            model = open_model(arguments.model, options.layers)
        module = readable_module(model, options, progress)
        workload = Workload(arguments.tokens_cached, arguments.batch, arguments.prompt)
        search = make_search(model, module, options, device, workload, wishes)
        return find_plan(search, arguments.grid)


def _device(arguments: argparse.Namespace) -> Device:
    from llmc.runtime.ranks.grid import Grid

    grid = arguments.grid
    ranks = int(grid) if grid.isdecimal() else Grid.parse(grid).size
    device = find_device(arguments.device_file, ranks)
    if arguments.save_device is not None:
        with writing(arguments.save_device):
            arguments.save_device.write_text(device.to_json(), encoding="utf-8")
    return device


def _text(planned: Planned) -> str:
    best = planned.best
    lines = [f"grid          {best.plan.grid}"]
    if best.plan.stages:
        counts = (best.plan.stages.count(stage) for stage in range(len(best.memory)))
        lines.append(f"stages        {', '.join(map(str, counts))} layers")
    lines += [f"  {each.name:<46} {each.words}" for each in best.weights]
    lines += [
        f"step          {_costs(best)}",
        f"memory        {max(best.memory) / 1e6:,.1f} MB on a rank",
        f"sent          {max(best.moved):,} bytes by a rank in a step",
        "beside it",
    ]
    for name, other in planned.others.items():
        lines.append(f"  {name:<24} {other if isinstance(other, str) else _costs(other)}")
    return "\n".join(lines) + "\n"


def _costs(found: Found) -> str:
    cost = found.cost
    return (
        f"{cost.seconds * 1e3:.3f} ms: compute {cost.compute_s * 1e3:.3f}, "
        f"sums {cost.reduce_s * 1e3:.3f}, resharding {cost.reshard_s * 1e3:.3f}"
    )


def _facts(planned: Planned) -> dict[str, object]:
    return {
        "plan": json.loads(planned.best.plan.to_json()),
        "weights": {each.name: each.words for each in planned.best.weights},
        **_numbers(planned.best),
        "others": {
            name: other if isinstance(other, str) else _numbers(other)
            for name, other in planned.others.items()
        },
    }


def _numbers(found: Found) -> dict[str, object]:
    return {
        "seconds": found.cost.seconds,
        **{name: asdict(found.cost)[name] for name in ("compute_s", "reduce_s", "reshard_s")},
        "memory_bytes": [int(each) for each in found.memory],
        "moved_bytes": list(found.moved),
    }
