"""`llmc comm`: the ways in which ranks can share a matmul, side by side."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from llmc.frontend.toolchain import needing_compiler
from llmc.tools.arguments import positive
from llmc.tools.planned_devices import HOST, find_device
from llmc.tools.tables import write_table
from llmc.tools.terminal import write
from llmc.tools.text_files import read_text

if TYPE_CHECKING:
    from llmc.frontend.bench.matmul_schedules import Row

HELP = "compare the ways in which ranks can share a matmul"
_EPILOG = """
Of the rank that has most of each: bytes sent and, beside the arguments, held; the time that links
should take, and that a call took; and the largest difference from numpy's result, by its largest
element.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.epilog = _EPILOG
    parser.add_argument(
        "file", metavar="FILE", type=Path, help="a function of an llmc.linear whose x is split"
    )
    parser.add_argument(
        "--device",
        default=HOST,
        metavar="FILE",
        help="how ranks are linked, for the prediction (default host: they share this machine)",
    )
    parser.add_argument(
        "--rounds", type=positive, default=21, metavar="N", help="how often to run (default 21)"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON list")


def run(arguments: argparse.Namespace) -> None:
    """Prints what each schedule moves, holds and takes."""
    rows = _compare(arguments)
    if arguments.json:
        write(json.dumps([asdict(row) for row in rows], indent=2) + "\n")
        return
    write_table(_table(rows))


def _compare(arguments: argparse.Namespace) -> list[Row]:
    with needing_compiler("comparing"):
        # Here, since no other command needs to wait for MLIR, nor to have it.
        from llmc.frontend.bench.matmul_schedules import compare_schedules
    text = read_text(arguments.file)
    return compare_schedules(
        text, lambda ranks: find_device(arguments.device, ranks), arguments.rounds
    )


def _table(rows: list[Row]) -> Table:
    names = ("function", "schedule", "sent", "memory", "links", "measured", "off by")
    table = Table(*names, box=None, pad_edge=False)
    for row in rows:
        table.add_row(
            row.function,
            row.variant,
            f"{row.moved:,} B",
            f"{row.peak:,} B",
            f"{row.link_s * 1e3:.3f} ms",
            f"{row.call_s * 1e3:.3f} ms",
            f"{row.error:.1e}",
        )
    return table
