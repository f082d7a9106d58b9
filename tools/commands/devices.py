"""`llmc devices`: what this machine has that llmc can run on."""

import argparse

from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from llmc.runtime.devices import list_devices
from llmc.tools.terminal import write

HELP = "list what this machine has that llmc can run on"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command has no options."""


def run(arguments: argparse.Namespace) -> None:
    """Prints a table of the devices."""
    table = Table("device", "name", "cores", "memory", "note", box=None, pad_edge=False)
    for device in list_devices():
        cells = (
            device.kind,
            device.name,
            str(device.cores or ""),
            decimal(device.memory_bytes) if device.memory_bytes else "",
            device.note,
        )
        table.add_row(*map(Text, cells))
    console = Console()
    with console.capture() as text:
        console.print(table)
    write(text.get())
