"""Writes shapes and peaks into attributes."""

from collections.abc import Mapping, Sequence

import sympy
from sympy import Expr
from torch_mlir import ir
from torch_mlir.extras import types as T

from llmc.pipelines.shapes.analysis import Summary
from llmc.pipelines.shapes.expressions import maximum, replaced, symbol, text, upper_bound
from llmc.pipelines.shapes.facts import Facts, Shape, is_tensor
from llmc.pipelines.shapes.naming import Meaning
from llmc.pipelines.walks import walk

_SHAPE = "llmc.shape"
_SHAPE_BOUND = "llmc.shape_bound"
_ARGUMENTS = "llmc.argument_shapes"
_PEAK = "llmc.peak_bytes"
_PEAK_BOUND = "llmc.peak_bytes_bound"


class Annotator:
    """Writes attributes, or removes old ones; `limits` are the largest values of symbols."""

    def __init__(self, limits: Mapping[str, int]) -> None:
        self.limits = {symbol(name): limit for name, limit in limits.items()}
        self._names: dict[sympy.Symbol, sympy.Symbol] = {}

    def annotate(self, summary: Summary, meaning: Meaning) -> None:
        """Writes the attributes of a function and of its operations."""
        function = summary.function
        arguments = self._shapes(function.arguments, summary.facts, meaning)
        _write(function.operation, _ARGUMENTS, arguments and _texts(arguments))
        for op in walk(function.operation):
            shapes = self._shapes(op.results, summary.facts, meaning)
            one = shapes and len(shapes) == 1
            bounds = shapes and self._bounds(shapes)
            _write(op, _SHAPE, shapes and (_texts(shapes)[0] if one else _texts(shapes)))
            _write(op, _SHAPE_BOUND, bounds and (bounds[0] if one else bounds))
        peak = maximum(self._named(each, meaning) for each in summary.peak)
        limit = upper_bound(peak, self.limits)
        i64 = T.i64()
        _write(function.operation, _PEAK, ir.StringAttr.get(text(peak)))
        bound = None if limit is None else ir.IntegerAttr.get(i64, limit)
        _write(function.operation, _PEAK_BOUND, bound)

    def _shapes(
        self, values: Sequence[ir.Value], facts: Facts, meaning: Meaning
    ) -> list[Shape] | None:
        """The shapes of values, empty for what is no tensor; None if no tensor is dynamic."""
        if not any(is_tensor(value) and not value.type.has_static_shape for value in values):
            return None
        shapes = [facts.shape(value) if is_tensor(value) else () for value in values]
        return [tuple(self._named(each, meaning) for each in shape) for shape in shapes]

    def _bounds(self, shapes: list[Shape]) -> ir.ArrayAttr | None:
        """The largest extents; None where one has no bound."""
        bounds = [[upper_bound(each, self.limits) for each in shape] for shape in shapes]
        if any(bound is None for shape in bounds for bound in shape):
            return None
        return ir.ArrayAttr.get([ir.DenseI64ArrayAttr.get(shape) for shape in bounds])

    def _named(self, expression: Expr, meaning: Meaning) -> Expr:
        """In symbols that have names; one without gets one when first met."""
        expression = replaced(expression, meaning)
        for each in sorted(expression.atoms(sympy.Dummy), key=lambda dummy: dummy.dummy_index):
            self._names.setdefault(each, symbol(f"n{len(self._names)}"))
        return replaced(expression, self._names)


def _texts(shapes: list[Shape]) -> ir.ArrayAttr:
    lists = [[ir.StringAttr.get(text(each)) for each in shape] for shape in shapes]
    return ir.ArrayAttr.get([ir.ArrayAttr.get(each) for each in lists])


def _write(op: ir.Operation, name: str, attribute: ir.Attribute | None) -> None:
    if attribute is not None:
        op.attributes[name] = attribute
    elif name in op.attributes:
        del op.attributes[name]
