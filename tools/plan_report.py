"""What `llmc plan` says of a plan: as text, and as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llmc.frontend.planning import Planned
    from llmc.pipelines.sharding.search.device import Device, Line, Link
    from llmc.pipelines.sharding.search.search import Found

_COLUMNS = ("step ms", "compute", "sums", "resharding", "memory MB", "sent bytes")


def report(planned: Planned, device: Device) -> str:
    """The device, the plan, and what it costs beside others: of the rank that has most of each."""
    best = planned.best
    lines = [*_device(device), f"grid          {best.plan.grid}"]
    if best.plan.stages:
        counts = (best.plan.stages.count(stage) for stage in range(len(best.memory)))
        lines.append(f"stages        {', '.join(map(str, counts))} layers")
    lines += [f"  {each.name:<46} {each.words}" for each in best.weights]
    lines += [
        f"activations   {best.activations / 1e6:,.1f} MB of a rank's memory",
        _row("", _COLUMNS),
        _row("this plan", _cells(best)),
    ]
    for name, other in planned.others.items():
        lines.append(_row(name, [other] if isinstance(other, str) else _cells(other)))
    return "\n".join(lines) + "\n"


def facts(planned: Planned, device: Device) -> dict[str, object]:
    """The same, to be written as JSON."""
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


def _device(device: Device) -> list[str]:
    """What a device has, and how they are linked."""
    gigabytes, read = device.memory_bytes / 1e9, device.read_bytes_per_s / 1e9
    rate = device.flops_per_s["f32"] / 1e9
    words = f"{gigabytes:,.1f} GB, reads {read:,.1f} GB/s, {rate:,.0f} Gflop/s in f32"
    if host := device.host:
        words += f" on each of {host.cpus} CPUs, {host.read_bytes_per_s / 1e9:,.1f} GB/s on all"
    lines = [f"device        {words}"]
    for link in device.links:
        times: dict[str, Line | Link] = {"message": link, **link.operations}
        said = ", ".join(f"{name} {_line(line)}" for name, line in times.items())
        lines.append(f"  {link.ranks:>6} ranks  {said}")
    return lines


def _line(line: Line | Link) -> str:
    return f"{line.latency_s * 1e6:,.1f} us + {line.bytes_per_s / 1e9:,.2f} GB/s"


def _row(name: str, cells: list[str] | tuple[str, ...]) -> str:
    return f"{name:<24}" + "".join(f"{cell:>12}" for cell in cells)


def _cells(found: Found) -> list[str]:
    cost = found.cost
    parts = (cost.seconds, cost.compute_s, cost.reduce_s, cost.reshard_s)
    return [
        *(f"{part * 1e3:,.3f}" for part in parts),
        f"{max(found.memory) / 1e6:,.1f}",
        f"{max(found.moved):,}",
    ]


def _numbers(found: Found) -> dict[str, object]:
    return {
        "seconds": found.cost.seconds,
        **{name: asdict(found.cost)[name] for name in ("compute_s", "reduce_s", "reshard_s")},
        "memory_bytes": [int(each) for each in found.memory],
        "activation_bytes": found.activations,
        "moved_bytes": list(found.moved),
    }
