"""Tables on standard output."""

from rich.console import Console
from rich.table import Table

from llmc.tools.terminal import write


def write_table(table: Table) -> None:
    """Writes `table` to standard output, as wide as the terminal. Raises as `write` does."""
    console = Console()
    with console.capture() as text:
        console.print(table)
    write(text.get())
