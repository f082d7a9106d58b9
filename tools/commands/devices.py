"""`llmc devices`: what this machine has that llmc can run on."""

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict

from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from llmc.frontend.bench.machine import Bounds, measure
from llmc.frontend.toolchain import lacking_compiler
from llmc.runtime.devices import Device, list_devices
from llmc.tools.tables import write_table
from llmc.tools.terminal import note, write

HELP = "list what this machine has that llmc can run on"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument(
        "--no-measure", action="store_true", help="do not measure how fast the CPU reads and counts"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON list")


def run(arguments: argparse.Namespace) -> None:
    """Prints the devices, and of the CPU what memory gives and arithmetic reaches."""
    bounds = None if arguments.no_measure else _measured()
    devices = list_devices()
    if arguments.json:
        write(json.dumps(list(_facts(devices, bounds)), indent=2) + "\n")
        return
    table = Table("device", "name", "cores", "memory", "note", box=None, pad_edge=False)
    for device in devices:
        notes = [device.note, _speeds(bounds) if device.kind == "cpu" and bounds else ""]
        cells = (
            device.kind,
            device.name,
            str(device.cores or ""),
            decimal(device.memory_bytes) if device.memory_bytes else "",
            ", ".join(filter(None, notes)),
        )
        table.add_row(*map(Text, cells))
    write_table(table)


def _measured() -> Bounds | None:
    try:
        return measure()
    except ModuleNotFoundError as error:
        note(lacking_compiler("measuring the CPU", error))
        return None


def _speeds(bounds: Bounds) -> str:
    speeds = [
        f"reads {bounds.read_bytes_per_s / 1e9:.0f} GB/s",
        f"{bounds.float_ops_per_s / 1e9:.0f} GFLOP/s of f32",
    ]
    if bounds.pair_ops_per_s:
        speeds.append(f"{bounds.pair_ops_per_s / 1e9:.0f} GFLOP/s of bf16")
    if bounds.byte_ops_per_s:
        speeds.append(f"{bounds.byte_ops_per_s / 1e9:.0f} GOP/s of bytes")
    return ", ".join(speeds)


def _facts(devices: list[Device], bounds: Bounds | None) -> Iterator[dict[str, object]]:
    for device in devices:
        measured = asdict(bounds) if device.kind == "cpu" and bounds else {}
        yield {**asdict(device), **measured}
