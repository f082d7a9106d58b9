"""Shows diagnostics as MLIR's tools do: `file:line:col: error: message`, the line, and a caret."""

import re
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from torch_mlir import ir

from llmc.dialects.block_types import NO_SUCH_TYPE

# The binding shows a location as text only.
_PLACE = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+):(\d+)')
_MEMORY = "-"  # what MLIR calls text that it was not given as a file
_CALLERS = 10
# What the parser says of a type that a dialect of ours has not.
_NO_TYPE = "expected dynamic type"
# Warned of by the parser, to which the pipeline of a reproducer means nothing.
_REPRODUCER_IGNORED = "ignoring unknown external resources for 'mlir_reproducer'"

SEE_OPERATION = "see current operation"
"""How the note begins with which MLIR shows the operation that a diagnostic is about."""

_SEVERITIES = {"errors": ("error",), "warnings": ("error", "warning")}


@dataclass(frozen=True)
class DiagnosticFlags:
    """What is shown: notes, among them those of operations; which severities; where it arose.

    `verbosity` is `errors`, `warnings` (and errors) or `remarks` (all).
    """

    notes: bool = True
    operations: bool = True
    stack_traces: bool = False
    verbosity: str = "remarks"

    def show(self, diagnostic: ir.Diagnostic) -> bool:
        """Whether a diagnostic that is no note is shown."""
        severity = diagnostic.severity.name.lower()
        return severity in _SEVERITIES.get(self.verbosity, (severity,))

    def notes_of(self, diagnostic: ir.Diagnostic) -> list[ir.Diagnostic]:
        """The notes that are shown."""
        return [
            note
            for note in (diagnostic.notes if self.notes else ())
            if self.operations or not message_of(note).startswith(SEE_OPERATION)
        ]


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
    flags: DiagnosticFlags = DiagnosticFlags()

    def places(self, location: ir.Location) -> list[Place]:
        """The places of `location`: the innermost first, then those that it was called from."""
        text = str(location)
        found = [
            Place(self.name if name == _MEMORY else name, int(line), int(column))
            for name, line, column in _PLACE.findall(text)
        ]
        return found if "callsite(" in text else found[:1]

    def message(self, diagnostic: ir.Diagnostic) -> str:
        """What a diagnostic says."""
        message = message_of(diagnostic)
        is_ours = message == _NO_TYPE and any(
            (self._line(place) or "")[: place.column - 1].endswith("!llmc.")
            for place in self.places(diagnostic.location)
        )
        return NO_SUCH_TYPE if is_ours else message

    def show(self, diagnostic: ir.Diagnostic) -> bool:
        """Prints a diagnostic with its notes to standard error."""
        if message_of(diagnostic) != _REPRODUCER_IGNORED and self.flags.show(diagnostic):
            print("\n".join(self._lines(diagnostic)), file=sys.stderr, flush=True)
        return True

    def report(self, place: Place | None, said: str, width: int = 1) -> Iterator[str]:
        """The lines that say something of a place, with its line and `width` letters marked."""
        if place is None:
            yield f"{self.name}:0:0: {said}"
            return
        yield f"{place.file}:{place.line}:{place.column}: {said}"
        line = self._line(place)
        if line is not None:
            yield line
            yield _indent(line, place.column) + "^" + "~" * (width - 1)

    def _lines(self, diagnostic: ir.Diagnostic) -> Iterator[str]:
        said = f"{diagnostic.severity.name.lower()}: {self.message(diagnostic)}"
        places = self.places(diagnostic.location)
        first = places[0] if places else None
        yield from self.report(first, said)
        for place in places[1 : _CALLERS + 1]:
            yield from self.report(place, "note: called from")
        for note in self.flags.notes_of(diagnostic):
            yield from self._lines(note)
        if self.flags.stack_traces and diagnostic.severity != ir.DiagnosticSeverity.NOTE:
            yield from self.report(first, "note: diagnostic emitted with trace:")
            yield "".join(traceback.format_stack()).rstrip("\n")

    def _line(self, place: Place) -> str | None:
        """The line of `place`, where there is one."""
        lines = self._text_of(place.file).split("\n")
        return lines[place.line - 1].rstrip("\r") if 0 < place.line <= len(lines) else None

    def _text_of(self, file: str) -> str:
        return self.text if file == self.name else _read(file)


def message_of(diagnostic: ir.Diagnostic) -> str:
    """What a diagnostic says."""
    try:
        return diagnostic.message
    except (RuntimeError, UnicodeDecodeError):  # the binding's, where a name is no text
        return "what is wrong has a name that is not valid UTF-8"


def _indent(line: str, column: int) -> str:
    """What puts a caret below a column, which MLIR counts in bytes; tabs stay tabs."""
    if column == 0:
        before = line[: len(line) - len(line.lstrip())]
    else:
        before = line.encode("utf-8", "replace")[: column - 1].decode("utf-8", "ignore")
    return "".join(letter if letter == "\t" else " " for letter in before)


@cache
def _read(file: str) -> str:
    """A file that a location names, as that of a PyTorch model's code; empty where it is gone."""
    try:
        return Path(file).read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):  # ValueError: of a name that no file can have
        return ""
