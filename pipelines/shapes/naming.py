"""Names for the symbols of functions' arguments: `tokens`, `past` and their like."""

from collections.abc import Iterator, Mapping
from typing import TypeAlias

import sympy
from sympy import Expr

from llmc.pipelines.rewriting.functions import callee, is_private
from llmc.pipelines.shapes.analysis import Summary, known, substituted
from llmc.pipelines.shapes.expressions import symbol
from llmc.pipelines.shapes.interface import argument_names
from llmc.pipelines.walks import find

Meaning: TypeAlias = dict[sympy.Symbol, Expr]
"""What the symbols of one function stand for, in symbols with names."""


def name_symbols(summaries: dict[str, Summary]) -> dict[str, Meaning]:
    """For each function what the symbols of its arguments stand for in all of its calls.

    Those of a public function are the module's interface. Those of a private one are what its
    callers pass, where all of these pass the same.
    """
    meanings: dict[str, Meaning] = {}
    # Callers come after those that they call.
    for name, summary in reversed(summaries.items()):
        if is_private(summary.function.operation):
            meanings[name] = _agreed(_calls(name, summaries, meanings))
        else:
            meanings[name] = _interface(summary)
    return meanings


def _calls(
    name: str, summaries: Mapping[str, Summary], meanings: Mapping[str, Meaning]
) -> Iterator[Meaning]:
    """What is passed in each call of a function."""
    for caller, meaning in meanings.items():
        for call in find(summaries[caller].function.operation, "func.call"):
            if callee(call) == name:
                facts = summaries[caller].facts
                operands = [substituted(known(each, facts), meaning) for each in call.operands]
                yield summaries[name].passed(operands)


def _agreed(calls: Iterator[Meaning]) -> Meaning:
    agreed: Meaning | None = None
    for meaning in calls:
        agreed = dict(meaning.items() & agreed.items()) if agreed is not None else meaning
    return agreed or {}


def _interface(summary: Summary) -> Meaning:
    """What the arguments' symbols are called, those that have a name."""
    meaning: Meaning = {}
    arguments = summary.function.arguments
    for argument, names in zip(arguments, argument_names(summary.function), strict=True):
        what = known(argument, summary.facts)
        parts = what if isinstance(what, tuple) else (what,)
        for part, name in zip(parts, names, strict=False):
            if part is not None and part.is_Symbol:
                meaning[part] = symbol(name)
    return meaning
