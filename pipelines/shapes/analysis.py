"""The shapes in a module: each function in terms of its arguments, calls by what they pass.

A function is looked at once, after those that it calls. The extents of its arguments are symbols,
in which those of its results, and its peak of memory, are said; a call puts what it passes in their
place.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import sympy
from sympy import Expr
from torch_mlir import ir
from torch_mlir.dialects import func

from llmc.pipelines.rewriting.functions import callee, functions
from llmc.pipelines.shapes.expressions import replaced, unknown
from llmc.pipelines.shapes.facts import Facts, Shape, is_integer, is_tensor
from llmc.pipelines.shapes.interface import argument_names
from llmc.pipelines.shapes.memory import peak_bytes
from llmc.pipelines.shapes.rules import apply_rule
from llmc.pipelines.walks import find, walk

Known: TypeAlias = Shape | Expr | None
"""Of a value: the extents of a tensor, an integer, or nothing."""


@dataclass(frozen=True)
class Summary:
    """What is known of a function, in symbols for the extents and integers of its arguments.

    `peak` are polynomials, the largest of which is the number of bytes of tensors that a call has
    at its fullest moment, without its arguments.
    """

    function: func.FuncOp
    facts: Facts
    results: tuple[Known, ...]
    peak: tuple[Expr, ...]

    def passed(self, operands: Sequence[Known]) -> dict[sympy.Symbol, Expr]:
        """What the symbols of the arguments stand for in a call with these operands."""
        meaning: dict[sympy.Symbol, Expr] = {}
        for argument, operand in zip(self.function.arguments, operands, strict=True):
            own = known(argument, self.facts)
            if isinstance(own, tuple) and isinstance(operand, tuple):
                for mine, given in zip(own, operand, strict=True):
                    if mine.is_Symbol:
                        meaning[mine] = given
            elif isinstance(own, Expr) and isinstance(operand, Expr):
                meaning[own] = operand
        return meaning


def summarize(module: ir.Module) -> dict[str, Summary]:
    """The functions with a body by name, those that are called before those that call them."""
    bodies = {function.sym_name.value: function for function in functions(module)}
    summaries: dict[str, Summary] = {}
    begun: set[str] = set()

    def visit(name: str) -> None:
        if name in bodies and name not in begun:
            begun.add(name)
            for call in find(bodies[name].operation, "func.call"):
                visit(callee(call))
            summaries[name] = _Analysis(bodies[name], summaries).summary()

    for name in bodies:
        visit(name)
    return summaries


def known(value: ir.Value, facts: Facts) -> Known:
    """What is known of a value."""
    if is_tensor(value):
        return facts.shape(value)
    return facts.integer(value) if is_integer(value) else None


def substituted(what: Known, meaning: Mapping[sympy.Symbol, Expr]) -> Known:
    """`what` with symbols replaced."""
    if isinstance(what, tuple):
        return tuple(replaced(each, meaning) for each in what)
    return what if what is None else replaced(what, meaning)


class _Analysis:
    """One function; `summaries` are those of the functions that it calls."""

    def __init__(self, function: func.FuncOp, summaries: Mapping[str, Summary]) -> None:
        self.function = function
        self.summaries = summaries
        self.facts = Facts()

    def summary(self) -> Summary:
        """Looks at every operation, in order."""
        names = argument_names(self.function)
        for argument, of_dims in zip(self.function.arguments, names, strict=True):
            self._set(argument, _own_symbols(argument, of_dims), self.function.operation)
        blocks = list(self.function.regions[0].blocks)
        for block in blocks:
            self._walk(block)
        # Where blocks branch to each other, several may return.
        returned = list(blocks[0].operations)[-1].operands if len(blocks) == 1 else ()
        results = tuple(known(value, self.facts) for value in returned)
        peak = peak_bytes(self.function, self.facts, self._peak_of_call)
        return Summary(self.function, self.facts, results, tuple(peak))

    def _walk(self, block: ir.Block) -> None:
        for op in block:
            op = op.operation
            _VISITS.get(op.name, _Analysis._visit)(self, op)

    def _visit(self, op: ir.Operation) -> None:
        if not op.name.startswith("linalg."):  # whose bodies are about elements
            for region in op.regions:
                for block in region:
                    self._walk(block)
        apply_rule(op, self.facts)

    def _visit_call(self, op: ir.Operation) -> None:
        summary = self.summaries.get(callee(op))
        if summary is not None:
            meaning = self._meaning(op, summary)
            for result, what in zip(op.results, summary.results, strict=False):
                self._set(result, substituted(what, meaning), op)

    def _visit_for(self, op: ir.Operation) -> None:
        """What goes round is as it was at first, if all rounds leave it so."""
        loop = op.opview
        *_, end = loop.body.operations
        for inner, first in zip(loop.inner_iter_args, loop.initArgs, strict=True):
            self._set(inner, known(first, self.facts), op)
        self._walk(loop.body)
        kept = dict(zip(loop.inner_iter_args, end.operands, strict=True))
        while changed := [inner for inner, last in kept.items() if not self._agree(inner, last)]:
            for value in (*changed, *(result for each in walk(op) for result in each.results)):
                self.facts.forget(value)
            kept = {inner: last for inner, last in kept.items() if inner not in changed}
            self._walk(loop.body)
        for inner, result in zip(loop.inner_iter_args, op.results, strict=True):
            self._set(result, known(inner, self.facts), op)

    def _visit_if(self, op: ir.Operation) -> None:
        """A result is known where both branches agree on it."""
        branches = [block for region in op.regions for block in region]
        for block in branches:
            self._walk(block)
        if len(branches) == 2:
            yes, no = ([*block.operations[-1].operands] for block in branches)
            for result, a, b in zip(op.results, yes, no, strict=True):
                if self._agree(a, b):
                    self._set(result, known(a, self.facts), op)

    def _agree(self, a: ir.Value, b: ir.Value) -> bool:
        return known(a, self.facts) == known(b, self.facts)

    def _set(self, value: ir.Value, what: Known, op: ir.Operation) -> None:
        if isinstance(what, tuple):
            self.facts.set_shape(value, what, op)
        elif what is not None:
            self.facts.set_integer(value, what)

    def _meaning(self, call: ir.Operation, summary: Summary) -> dict[sympy.Symbol, Expr]:
        return summary.passed([known(operand, self.facts) for operand in call.operands])

    def _peak_of_call(self, call: ir.Operation) -> list[Expr]:
        summary = self.summaries.get(callee(call))
        if summary is None:
            return []
        meaning = self._meaning(call, summary)
        return [replaced(each, meaning) for each in summary.peak]


def _own_symbols(argument: ir.Value, names: Sequence[str]) -> Known:
    """Symbols for what nobody knows of an argument before a call; () where none has a name."""
    if is_tensor(argument):
        return tuple(unknown(name) for name in names)
    return unknown(names[0]) if names and is_integer(argument) else None


_VISITS: dict[str, Callable[[_Analysis, ir.Operation], None]] = {
    "func.call": _Analysis._visit_call,
    "scf.for": _Analysis._visit_for,
    "scf.if": _Analysis._visit_if,
}
