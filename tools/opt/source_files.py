"""The file that `llmc-opt` reads: MLIR's text, whole or in parts, or its bytecode."""

import sys
from dataclasses import dataclass
from pathlib import Path

from torch_mlir import ir

from llmc.pipelines.driver.diagnostics import Source
from llmc.runtime.errors import UserError

SEPARATOR = "// -----"
_STANDARD_INPUT = "-"
_BYTECODE = b"ML\xefR"


@dataclass(frozen=True)
class Part:
    """What is parsed at once: a part of the file, pushed down to the lines where it stands."""

    source: Source
    content: str | bytes
    is_whole_file: bool

    def parse(self, context: ir.Context, *, implicit_module: bool) -> ir.Module | ir.OpView:
        """The operation in it, within a module if `implicit_module`. Raises MLIRError."""
        if not implicit_module:
            return ir.Operation.parse(self.content, source_name=self.source.name, context=context)
        if self.is_whole_file and isinstance(self.content, str):
            return ir.Module.parseFile(self.source.name, context)  # whose locations name the file
        return ir.Module.parse(self.content, context)


def read_parts(name: str, *, split: bool) -> list[Part]:
    """The parts of the file `name` between lines '// -----' if `split`, else the whole.

    UserError if it cannot be read.
    """
    content = _read(name)
    is_file = name != _STANDARD_INPUT
    name = name if is_file else "<stdin>"
    if content.startswith(_BYTECODE):
        return [Part(Source(name, ""), content, is_whole_file=is_file)]
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"cannot read {name}: it is neither UTF-8 text nor bytecode") from error
    if "\0" in text:
        raise UserError(f"cannot read {name}: there is a zero byte in the text")
    if not split:
        return [Part(Source(name, text), text, is_whole_file=is_file)]
    return [Part(Source(name, part), part, is_whole_file=False) for part in _split(text)]


def _read(name: str) -> bytes:
    try:
        if name == _STANDARD_INPUT:
            return sys.stdin.buffer.read()
        return Path(name).read_bytes()
    except OSError as error:
        raise UserError(f"cannot read {name}: {error.strerror}") from error


def _split(text: str) -> list[str]:
    parts, first = [], 0
    lines = text.split("\n")
    for number, line in enumerate([*lines, SEPARATOR]):
        if line.strip() == SEPARATOR:
            parts.append("\n" * first + "\n".join(lines[first:number]) + "\n")
            first = number + 1
    return parts
