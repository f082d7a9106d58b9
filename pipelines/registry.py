"""Our passes by name, and pipelines as text in MLIR's syntax.

    builtin.module(number-layers,pack-weights{columns=8 rows=8},func.func(canonicalize,cse))

At the top level our passes, which run on a module, stand beside MLIR's own. The fields of a pass's
dataclass are its options, with `-` for `_`.
"""

import re
from dataclasses import Field, fields
from typing import Any

from torch_mlir import ir
from torch_mlir.passmanager import PassManager

from llmc.pipelines.passes import PASSES
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.pipeline import Step
from llmc.runtime.errors import UserError

ANCHOR = "builtin.module"
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


def parse_pipeline(text: str, context: ir.Context) -> tuple[Step, ...]:
    """The steps of the pipeline `builtin.module(...)`.

    UserError, in one line, for what is no pipeline, a pass that neither we nor MLIR have, or an
    option that its pass does not take.
    """
    anchor, _, body = text.strip().partition("(")
    if anchor != ANCHOR or not body.endswith(")"):
        raise UserError(f"a pipeline is wrapped in its anchor, as in '{ANCHOR}(cse)'")
    return tuple(_step(element, context) for element in _split(body.removesuffix(")")))


def list_passes() -> list[str]:
    """A line for each pass of ours: its name, anchor, options with defaults, and what it does."""
    rows = []
    for name, pass_ in PASSES.items():
        options = " ".join(f"{_option_name(field)}={field.default}" for field in fields(pass_))
        summary, _, _ = (pass_.__doc__ or "").partition("\n")
        rows.append((name, ANCHOR, f"{{{options}}}", summary))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return ["  ".join([*map(str.ljust, row, widths), row[3]]) for row in rows]


def _split(text: str) -> list[str]:
    """The elements of a list, which commas between brackets do not separate."""
    elements, depth = [""], 0
    for letter in text:
        depth += (letter in "({") - (letter in ")}")
        if depth < 0:
            break
        if letter == "," and depth == 0:
            elements.append("")
        else:
            elements[-1] += letter
    if depth:
        raise UserError(f"the brackets of the pipeline do not match, at '{elements[-1]}'")
    return [element.strip() for element in elements] if text.strip() else []


def _step(element: str, context: ir.Context) -> Step:
    name, brace, options = element.partition("{")
    if name in PASSES and options.endswith("}" if brace else ""):
        return _pass(name, options.removesuffix("}"))
    if not element:
        raise UserError("the pipeline has an empty element")
    try:
        PassManager.parse(f"{ANCHOR}({element})", context)
    except ValueError as error:
        if nested := PASSES.keys() & set(re.findall(r"[\w-]+", element)):
            raise UserError(f"in '{element}': {min(nested)} runs on {ANCHOR} alone") from error
        raise UserError(f"in '{element}': {_essence(str(error))}") from error
    return element


def _essence(message: str) -> str:
    """The first line of an error of MLIR's pass manager, without the place in its own text."""
    line = next(filter(None, message.splitlines()), "MLIR does not take it")
    return line.rpartition("error: ")[2]


def _pass(name: str, options: str) -> Pass:
    pass_ = PASSES[name]
    known = {_option_name(field): field for field in fields(pass_)}
    values: dict[str, Any] = {}
    for option in options.split():
        key, _, value = option.partition("=")
        if key not in known:
            takes = f"its options are {', '.join(known)}" if known else "it has none"
            raise UserError(f"pass '{name}' has no option '{key}': {takes}")
        values[known[key].name] = _value(f"option '{key}' of pass '{name}'", value, known[key].type)
    try:
        return pass_(**values)
    except ValueError as error:
        raise UserError(f"pass '{name}': {error}") from error


def _option_name(field: Field[Any]) -> str:
    return field.name.replace("_", "-")


def _value(option: str, text: str, type_: Any) -> Any:
    try:
        return _BOOLEANS[text] if type_ is bool else type_(text)
    except (KeyError, ValueError) as error:
        raise UserError(f"{option} must be of type {type_.__name__}, not '{text}'") from error
