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
from llmc.runtime.ranks.grid import Grid
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
    from llmc.pipelines.sharding.search.device import Device, Line, Link
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
    if arguments.grid is None and arguments.plan is None:
        raise UserError("give the number of ranks or their grid with --grid, as 8 or tp=4,pp=2")
    planned, device = _plan(arguments)
    for path, text in (
        (arguments.output, planned.best.plan.to_json()),
        (arguments.save_device, device.to_json()),
    ):
        if path is not None:
            with writing(path):
                path.write_text(text, encoding="utf-8")
    write(json.dumps(_facts(planned, device)) + "\n" if arguments.json else _text(planned, device))


def _plan(arguments: argparse.Namespace) -> tuple[Planned, Device]:
    # Here, for the other commands need neither PyTorch nor the compiler.
    with compiling(arguments) as progress:
        with progress("start"):
            try:
                from llmc.frontend.planning import (
                    Workload,
                    bytes_of_weights,
                    find_plan,
                    make_search,
                    readable_module,
                    same_of,
                )
            except ModuleNotFoundError as error:
                if error.name != "highspy":
                    raise
                raise UserError("llmc plan needs pip install 'llmc-compiler[plan]'") from error
            from llmc.frontend.compile import grid_of_options
            from llmc.pipelines.sharding.search.constraints import Constraints, Wish
        wishes = Constraints(
            tuple(map(Wish.parse, arguments.pin)),
            tuple(map(Wish.parse, arguments.forbid)),
            same_of(arguments.same),
        )
        options = compile_options(arguments)
        grid = str(grid_of_options(options)) if options.plan else arguments.grid
        ranks = int(grid) if grid.isdecimal() else Grid.parse(grid).size
        with progress("open"):
            model = open_model(arguments.model, options.layers)
        device = find_device(arguments.device_file, ranks, bytes_of_weights(model, options))
        module = readable_module(model, options, progress)
        workload = Workload(arguments.tokens_cached, arguments.batch, arguments.prompt)
        search = make_search(model, module, options, device, workload, wishes)
        return find_plan(search, grid), device


def _text(planned: Planned, device: Device) -> str:
    best = planned.best
    lines = [*_device_lines(device), f"grid          {best.plan.grid}"]
    if best.plan.stages:
        counts = (best.plan.stages.count(stage) for stage in range(len(best.memory)))
        lines.append(f"stages        {', '.join(map(str, counts))} layers")
    lines += [f"  {each.name:<46} {each.words}" for each in best.weights]
    lines += [
        f"step          {_costs(best)}",
        f"memory        {max(best.memory) / 1e6:,.1f} MB on a rank, "
        f"{best.activations / 1e6:,.1f} of them for activations",
        f"sent          {max(best.moved):,} bytes by a rank in a step",
        "beside it",
    ]
    for name, other in planned.others.items():
        lines.append(f"  {name:<24} {other if isinstance(other, str) else _costs(other)}")
    return "\n".join(lines) + "\n"


def _device_lines(device: Device) -> list[str]:
    """What a device has, and how they are linked."""
    read, memory = device.read_bytes_per_s / 1e9, device.memory_bytes / 1e9
    words = (
        f"{memory:,.1f} GB, reads {read:,.1f} GB/s, {device.flops_per_s['f32'] / 1e9:,.0f} Gflop/s"
    )
    if host := device.host:
        words += f" on each of {host.cpus} CPUs, {host.read_bytes_per_s / 1e9:,.1f} GB/s on all"
    lines = [f"device        {words}"]
    for link in device.links:
        lines.append(f"  {f'among {link.ranks}':<11} message {_line(link)}")
        lines += [f"  {'':<11} {name} {_line(line)}" for name, line in link.operations.items()]
    return lines


def _line(line: Line | Link) -> str:
    return f"{line.latency_s * 1e6:,.1f} us and {line.bytes_per_s / 1e9:,.2f} GB/s"


def _costs(found: Found) -> str:
    cost = found.cost
    return (
        f"{cost.seconds * 1e3:.3f} ms: compute {cost.compute_s * 1e3:.3f}, "
        f"sums {cost.reduce_s * 1e3:.3f}, resharding {cost.reshard_s * 1e3:.3f}"
    )


def _facts(planned: Planned, device: Device) -> dict[str, object]:
    return {
        "device": asdict(device),
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
        "activation_bytes": found.activations,
        "moved_bytes": list(found.moved),
    }
