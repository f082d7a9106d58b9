"""Shows diagnostics as MLIR's tools do: `file:line:col: error: message`, the line, and a caret."""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from torch_mlir import ir

# The binding shows a location as text only.
_PLACE = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+):(\d+)')
_MEMORY = "-"  # what MLIR calls text that it was not given as a file
_CALLERS = 10
# Warned of by the parser, to which the pipeline of a reproducer means nothing.
_REPRODUCER_IGNORED = "ignoring unknown external resources for 'mlir_reproducer'"


@dataclass(frozen=True)
class Place:
    """A line and a column of a file, both from 1; column 0: the whole line."""

    file: str
    line: int
    column: int


@dataclass(frozen=True)
class Source:
    """The text that is read, and the name by which diagnostics call it."""

    name: str
    text: str

    def places(self, location: ir.Location) -> list[Place]:
        """The places of `location`: the innermost first, then those that it was called from."""
        text = str(location)
        found = [
            Place(self.name if name == _MEMORY else name, int(line), int(column))
            for name, line, column in _PLACE.findall(text)
        ]
        return found if "callsite(" in text else found[:1]

    def show(self, diagnostic: ir.Diagnostic) -> bool:
        """Prints a diagnostic with its notes to standard error."""
        if diagnostic.message == _REPRODUCER_IGNORED:
            return True
        print("\n".join(self._lines(diagnostic)), file=sys.stderr, flush=True)
        return True

    def _lines(self, diagnostic: ir.Diagnostic) -> Iterator[str]:
        severity, message = diagnostic.severity.name.lower(), diagnostic.message
        places = self.places(diagnostic.location)
        if not places:
            yield f"{self.name}:0:0: {severity}: {message}"
        for number, place in enumerate(places[: _CALLERS + 1]):
            said = f"{severity}: {message}" if number == 0 else "note: called from"
            yield f"{place.file}:{place.line}:{place.column}: {said}"
            yield from self._excerpt(place)
        for note in diagnostic.notes:
            yield from self._lines(note)

    def _excerpt(self, place: Place) -> Iterator[str]:
        """The line of `place` and a caret below its column."""
        lines = self._text_of(place.file).splitlines()
        if 0 < place.line <= len(lines):
            line = lines[place.line - 1]
            indent = place.column - 1 if place.column else len(line) - len(line.lstrip())
            yield line
            yield " " * indent + "^"

    def _text_of(self, file: str) -> str:
        return self.text if file == self.name else _read(file)


@cache
def _read(file: str) -> str:
    """A file that a location names, as that of a PyTorch model's code; empty where it is gone."""
    try:
        return Path(file).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
