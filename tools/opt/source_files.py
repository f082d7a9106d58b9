"""The file that `llmc-opt` reads: MLIR's text, whole or in parts, or its bytecode."""

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from torch_mlir import ir

from llmc.pipelines.driver.diagnostics import DiagnosticFlags, Place, Source
from llmc.runtime.errors import UserError

_STANDARD_INPUT = "-"
_BYTECODE = b"ML\xefR"


@dataclass(frozen=True)
class Part:
    """What is parsed at once: a part of the file, pushed down to the lines where it stands.

    `path` is the file, where this is all of it and it can be read again.
    """

    source: Source
    content: str | bytes
    path: Path | None

    def parse(self, context: ir.Context, *, implicit_module: bool) -> ir.Module | ir.OpView:
        """The operation in it, within a module if `implicit_module`. Raises MLIRError."""
        if isinstance(self.content, bytes):
            module = ir.Module.parse(self.content, context)
            return module if implicit_module else _unwrapped(module, self.content)
        if not implicit_module:
            return ir.Operation.parse(self.content, source_name=self.source.name, context=context)
        if self.path is not None:
            return ir.Module.parseFile(str(self.path), context)  # whose locations name the file
        return ir.Module.parse(self.content, context)


def read_parts(name: str, *, marker: str | None, flags: DiagnosticFlags) -> list[Part]:
    """The parts of the file `name` between lines of the text `marker`, or the whole.

    UserError if it cannot be read.
    """
    content = _read(name)
    path = Path(name) if name != _STANDARD_INPUT and Path(name).is_file() else None
    name = "<stdin>" if name == _STANDARD_INPUT else name
    if content.startswith(_BYTECODE):
        return [Part(Source(name, "", flags), content, path)]
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"cannot read {name}: it is neither UTF-8 text nor bytecode") from error
    if "\0" in text:
        raise UserError(f"cannot read {name}: there is a zero byte in the text")
    whole = Source(name, text, flags)
    if marker is None:
        return [Part(whole, text, path)]
    return [Part(Source(name, part, flags), part, None) for part in _split(whole, marker)]


def _unwrapped(module: ir.Module, bytecode: bytes) -> ir.Module | ir.OpView:
    """What the bytecode holds, without the module that the parser put around it."""
    # No binding reads another operation than a module from bytecode. A module of the parser's own
    # is located at the file that it reads: here one that nothing in the bytecode can know.
    with tempfile.NamedTemporaryFile() as copy:
        copy.write(bytecode)
        copy.flush()
        module = ir.Module.parseFile(copy.name, module.context)
        is_own = module.operation.location == ir.Location.file(copy.name, 0, 0, module.context)
    if not is_own:
        return module
    if len(module.body.operations) != 1:
        raise UserError("with --no-implicit-module the source must hold one operation")
    (only,) = module.body.operations
    return only.operation.detach_from_parent()


def _read(name: str) -> bytes:
    try:
        if name == _STANDARD_INPUT:
            if sys.stdin is None:
                raise UserError("standard input is closed: give a file, or pipe the module in")
            return sys.stdin.buffer.read()
        return Path(name).read_bytes()
    except (OSError, ValueError) as error:  # ValueError: of a name that no file can have
        reason = error.strerror if isinstance(error, OSError) else error
        raise UserError(f"cannot read {name}: {reason}") from error


def _split(source: Source, marker: str) -> list[str]:
    parts, first = [], 0
    lines = source.text.split("\n")
    for number, line in enumerate([*lines, marker]):
        found = line.strip()
        if found == marker.strip():
            parts.append("\n" * first + "\n".join(lines[first:number]) + "\n")
            first = number + 1
        elif len(marker) > 4 and found.startswith(marker[:-2]) and len(found) <= len(marker) + 1:
            place = Place(source.name, number + 1, line.index(found) + 1)
            said = "warning: near miss with file split marker"
            print("\n".join(source.report(place, said, len(found))), file=sys.stderr)
    return parts
