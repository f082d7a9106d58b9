"""What tuning found, as a table."""

import re
from collections.abc import Iterable
from math import prod

from rich.table import Table

from llmc.pipelines.tuning.database import Entry

# What the CPU alone decides.
_GIVEN = re.compile(r" ?(instruction|lanes)=\w+")


def table(entries: Iterable[Entry]) -> Table:
    """A row for each kernel: its largest operand, times of a dispatch and the best parameters."""
    shown = Table(box=None)
    for name in ("kernel", "operand", "default us", "best us", "ratio", "parameters"):
        shown.add_column(name, no_wrap=name != "parameters")
    for entry in entries:
        shown.add_row(
            entry.key.kind,
            _largest(entry.key.shape),
            f"{entry.default_seconds * 1e6:.1f}",
            f"{entry.seconds * 1e6:.1f}",
            f"{entry.default_seconds / entry.seconds:.2f}",
            _GIVEN.sub("", entry.schedule.removeprefix(entry.key.kind)).strip("{}"),
        )
    return shown


def _largest(shape: str) -> str:
    tensors = re.findall(r"tensor<([^<>]*)>", shape)
    return max(tensors, key=lambda text: prod(map(int, re.findall(r"\d+(?=x)", text))), default="")
