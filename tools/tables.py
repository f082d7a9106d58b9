"""Tables on standard output."""

from rich.console import Console
from rich.table import Table

from llmc.tools.terminal import write

_WIDEST = 1000
"""Letters of a line of a file: more than any table has."""


def write_table(table: Table) -> None:
    """Writes `table` to standard output, as wide as the terminal, or else as it is.

    Raises as `write` does.
    """
    console = Console()
    if not console.is_terminal:
        console.width = _WIDEST
    with console.capture() as text:
        console.print(table)
    write(text.get())
