"""Tables on standard output."""

from io import StringIO

from rich.console import Console
from rich.table import Table

from llmc.tools.terminal import write

_WIDEST = 1000
"""Letters of a line of a file: more than any table has."""


def write_table(table: Table) -> None:
    """Writes `table` to standard output, as wide as the terminal, or else as it is.

    Raises as `write` does.
    """
    terminal, text = Console(), StringIO()
    width = terminal.width if terminal.is_terminal else _WIDEST
    Console(file=text, width=width, force_terminal=terminal.is_terminal).print(table)
    write(text.getvalue())
