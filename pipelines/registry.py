"""Pipelines as text: our passes and named pipelines by name, MLIR's beside them.

    builtin.module(llmc-state,pack-weights{columns=8 rows=8},func.func(canonicalize,cse))

The fields of a pass's or a pipeline's dataclass are its options, with `-` for `_`. Ours run on a
module, and so stand below `builtin.module`.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches

from torch_mlir import ir
from torch_mlir.passmanager import PassManager

from llmc.pipelines.option_text import describe_options, parse_options
from llmc.pipelines.passes import PASSES
from llmc.pipelines.pipeline import PIPELINES, Step
from llmc.pipelines.pipeline_syntax import Element, parse_elements
from llmc.pipelines.schedules.registry import describe_schedules
from llmc.runtime.errors import UserError

MODULE = "builtin.module"

_UNKNOWN = re.compile(r"'([\w.-]+)' does not refer to a registered pass")


@dataclass(frozen=True)
class ParsedPipeline:
    """A pipeline and the name of the operation that it runs on."""

    anchor: str
    steps: tuple[Step, ...]


def parse_pipeline(text: str, context: ir.Context) -> ParsedPipeline:
    """The pipeline `ANCHOR(...)`.

    UserError, in one line, for what is no pipeline, a pass that neither we nor MLIR have, or an
    option that its pass does not take.
    """
    elements = parse_elements(text)
    if len(elements) != 1 or elements[0].nested is None:
        raise UserError(f"a pipeline is wrapped in its anchor, as in '{MODULE}(cse)'")
    (root,) = elements
    steps = tuple(
        step for element in root.nested or () for step in _steps(element, root.name, context)
    )
    return ParsedPipeline(root.name, steps)


def parse_pass(text: str, context: ir.Context, others: Sequence[str] = ()) -> tuple[Step, ...]:
    """One pass or named pipeline on a module, as `fuse-qkv` or `lower-llmc{ops=attention}`.

    A pass of MLIR's that runs on functions alone is nested by itself. UserError as from
    `parse_pipeline`; `others` is what else may have been meant by a name that nobody knows.
    """
    elements = parse_elements(text)
    if len(elements) != 1:
        raise UserError(f"'{text}' is not one pass: give an option for each, as in --cse --inline")
    (element,) = elements
    try:
        return _steps(element, MODULE, context, others)
    except UserError as error:
        anchor = re.search(r"restricted to '([\w.]+)'", str(error))
        if anchor is None:
            raise
        return _steps(Element(anchor[1], nested=(element,)), MODULE, context)


def is_pass(name: str, context: ir.Context) -> bool:
    """Whether there is such a pass, ours or MLIR's."""
    if name in PASSES:
        return True
    try:
        PassManager.parse(f"any({name})", context)
    except ValueError as error:
        return "restricted to" in str(error)
    return name.strip() != ""


def list_passes() -> list[str]:
    """A line for each pass of ours: its name, anchor, options with defaults, and what it does."""
    return _table([(name, MODULE, *_described(pass_)) for name, pass_ in sorted(PASSES.items())])


def list_pipelines() -> list[str]:
    """A line for each named pipeline: its name, options with defaults, and what it does."""
    return _table([(name, *_described(pipeline)) for name, pipeline in PIPELINES.items()])


def list_schedules() -> list[str]:
    """A line for each schedule of ours: its name, options with defaults, and what it does."""
    return _table(
        [(name, options, doc.partition("\n")[0]) for name, options, doc in describe_schedules()]
    )


def dialect_names(context: ir.Context) -> list[str]:
    """The names of the dialects that `context` knows, in order."""
    # No binding lists them, but the parser's answer to an unknown one does.
    told: list[str] = []

    def listen(diagnostic: ir.Diagnostic) -> bool:
        told.extend(note.message for note in diagnostic.notes)
        return True

    handler = context.attach_diagnostic_handler(listen)
    with handler, suppress(ir.MLIRError):
        ir.Module.parse("unknown.operation", context)
    listed = next(iter(told), "").partition("Available dialects: ")[2].partition(";")[0]
    return [name.split()[0] for name in listed.split(",") if name.strip()]


def _described(kind: type) -> tuple[str, str]:
    summary, _, _ = (kind.__doc__ or "").partition("\n")
    return describe_options(kind), summary


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    return ["  ".join([*map(str.ljust, row, widths), row[-1]]) for row in rows]


def _steps(
    element: Element, anchor: str, context: ir.Context, others: Sequence[str] = ()
) -> tuple[Step, ...]:
    if element.nested is None and (element.name in PASSES or element.name in PIPELINES):
        if anchor != MODULE:
            raise UserError(f"{element.name} runs on {MODULE}, not on {anchor}")
        if element.name in PASSES:
            kind = PASSES[element.name]
            return (parse_options(f"pass '{element.name}'", kind, element.options),)
        what = f"pipeline '{element.name}'"
        try:
            return parse_options(what, PIPELINES[element.name], element.options).steps()
        except ValueError as error:  # of a pass that takes the pipeline's options
            raise UserError(f"{what}: {error}") from error
    for inner in _names(element):
        if inner in PASSES or inner in PIPELINES:
            raise UserError(f"{inner} runs on {MODULE}, not on {element.name}")
    try:
        PassManager.parse(f"{anchor}({element})", context)
    except ValueError as error:
        said = _essence(str(error))
        raise UserError(f"in '{element}': {said}{_meant(said, others)}") from error
    return (str(element),)


def _meant(message: str, others: Sequence[str]) -> str:
    """What of ours may have been meant by a name of which MLIR says that it does not know it."""
    unknown = _UNKNOWN.search(message)
    near = get_close_matches(unknown[1], [*PASSES, *PIPELINES, *others]) if unknown else []
    return f"; did you mean '{near[0]}'?" if near else ""


def _names(element: Element) -> list[str]:
    return [name for inner in element.nested or () for name in (inner.name, *_names(inner))]


def _essence(message: str) -> str:
    """The line that says most in an error of MLIR's pass manager."""
    lines = [line for line in message.splitlines() if line.strip()]
    line = next(iter(lines), "MLIR does not take it")
    return line.rpartition("error: ")[2].removeprefix("<Pass-Options-Parser>: ")
