"""What can go wrong in the compiler, apart so that the command line can name it cheaply."""

from __future__ import annotations

import re
from signal import Signals
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from torch_mlir import ir

_FIRST = re.compile(r"\berror: (.+)")
_CRASHED = re.compile(r"^Error code: -(\d+)$", re.MULTILINE)


class IREEError(Exception):
    """IREE could not compile the module; the text is its diagnostics."""

    @property
    def first(self) -> str:
        """The first error of them, in one line, without its place."""
        if found := _FIRST.search(str(self)):
            return found[1].rstrip(".")
        crashed = _CRASHED.search(str(self))
        return f"crash with {Signals(int(crashed[1])).name}" if crashed else "no diagnostic given"


class PassError(Exception):
    """A pass cannot do its work on a module; a diagnostic has said why."""


UNPARSED = "operations of llmc are written in the generic form"
"""What is wrong with a module of which MLIR says no more than that it cannot read it."""


def reason(error: ir.MLIRError, otherwise: str) -> str:
    """What MLIR says is wrong, and where; `otherwise` where it says nothing."""
    for diagnostic in error.error_diagnostics:
        return f"{diagnostic.message}, at {diagnostic.location}"
    return otherwise


def fail(op: ir.Operation | ir.OpView, message: str) -> NoReturn:
    """Emits an error at `op` and raises PassError."""
    op.location.emit_error(message)
    raise PassError(message)
