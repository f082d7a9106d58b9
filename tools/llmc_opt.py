"""`llmc-opt`: runs passes, ours and MLIR's, on a file of MLIR, as `mlir-opt` does."""

import argparse
import re
import sys
from io import StringIO
from pathlib import Path

from torch_mlir import ir

from llmc import dialects
from llmc.pipelines.passes.base import PassError
from llmc.pipelines.pipeline import Stage, Step, run
from llmc.pipelines.registry import ANCHOR, list_passes, parse_pipeline
from llmc.runtime.errors import UserError

_SEPARATOR = "// -----"
_PLACE = re.compile(r'"([^"]*)":(\d+):(\d+)')


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; the exit status is 0, or 1 after an error, as `mlir-opt`'s."""
    options = _parser().parse_args(arguments)
    if options.list_passes:
        print("\n".join(list_passes()))
        return 0
    try:
        source = _Source.read(options.file)
        context = _context(source)
        steps = parse_pipeline(options.pass_pipeline, context)
        parts = source.parts() if options.split_input_file else [source.text]
        return _run(parts, steps, context, options.output)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="llmc-opt", description=__doc__)
    parser.add_argument("file", nargs="?", default="-", help="MLIR text; - is standard input")
    parser.add_argument(
        "--pass-pipeline",
        default=f"{ANCHOR}()",
        metavar="PIPELINE",
        help=f"the passes to run, as in '{ANCHOR}(number-layers,func.func(canonicalize,cse))'",
    )
    parser.add_argument("-o", dest="output", default="-", metavar="FILE", help="where to write")
    parser.add_argument(
        "--split-input-file",
        action="store_true",
        help=f"take the parts between lines '{_SEPARATOR}' one by one",
    )
    parser.add_argument("--list-passes", action="store_true", help="list the passes of llmc")
    return parser


class _Source:
    """The text that came in, and how its places are called in diagnostics."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text

    @classmethod
    def read(cls, name: str) -> "_Source":
        try:
            if name == "-":
                return cls("<stdin>", sys.stdin.read())
            return cls(name, Path(name).read_text(encoding="utf-8"))
        except OSError as error:
            raise UserError(f"cannot read {name}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise UserError(f"cannot read {name}: it is not UTF-8 text") from error

    def parts(self) -> list[str]:
        """The parts between separators, each pushed down to the lines where it stands."""
        parts, first = [], 0
        lines = self.text.splitlines()
        for number, line in enumerate([*lines, _SEPARATOR]):
            if line.strip() == _SEPARATOR:
                parts.append("\n" * first + "\n".join(lines[first:number]) + "\n")
                first = number + 1
        return parts

    def show(self, diagnostic: ir.Diagnostic) -> bool:
        """Prints a diagnostic, and its notes, as MLIR's tools do."""
        severity = diagnostic.severity.name.lower()
        place = _PLACE.search(str(diagnostic.location))
        where = "<unknown>:0"
        if place:
            name = self.name if place[1] == "-" else place[1]
            where = f"{name}:{place[2]}:{place[3]}"
        print(f"{where}: {severity}: {diagnostic.message}", file=sys.stderr)
        lines = self.text.splitlines()
        if place and place[1] == "-" and 0 < int(place[2]) <= len(lines):
            print(lines[int(place[2]) - 1], file=sys.stderr)
            print(" " * (int(place[3]) - 1) + "^", file=sys.stderr)
        for note in diagnostic.notes:
            self.show(note)
        return True


def _context(source: _Source) -> ir.Context:
    """A context that shows diagnostics as `source` does."""
    context = ir.Context()
    context.emit_error_diagnostics = True
    context.attach_diagnostic_handler(source.show)
    dialects.load(context)
    return context


def _run(parts: list[str], steps: tuple[Step, ...], context: ir.Context, output: str) -> int:
    """Writes each part after `steps`: to standard output at once, to a file if all went well."""
    sink = sys.stdout if output == "-" else StringIO()
    status = 0
    for number, part in enumerate(parts):
        if number:
            print(_SEPARATOR, file=sink, flush=True)
        try:
            print(_transform(part, steps, context), file=sink, flush=True)
        except (ir.MLIRError, PassError):  # of which a diagnostic told
            status = 1
    if isinstance(sink, StringIO) and status == 0:
        try:
            Path(output).write_text(sink.getvalue(), encoding="utf-8")
        except OSError as error:
            raise UserError(f"cannot write {output}: {error.strerror}") from error
    return status


def _transform(text: str, steps: tuple[Step, ...], context: ir.Context) -> str:
    module = ir.Module.parse(text, context)
    for step in steps:
        run(Stage(str(step), (step,)), module)
    return str(module).rstrip("\n")


if __name__ == "__main__":
    sys.exit(main())
