"""Shapes as formulas are the shapes that come out of running the program."""

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_mlir import ir
from torch_mlir.dialects import arith, func, tensor
from torch_mlir.extras import types as T

from llmc.dialects.index_notation import (
    as_value,
    collapse,
    contract,
    expand,
    index,
    pointwise,
    reduce,
    sizes,
    slice_of,
)
from llmc.pipelines.passes.propagate_shapes import PropagateShapes
from llmc.pipelines.shapes.expressions import largest, symbol, upper_bound
from tests.scheduled import call, new_context


def _transposed(x: ir.Value) -> ir.Value:
    return pointwise("ab->ba", lambda x, _: x, x)


def _product(x: ir.Value) -> ir.Value:
    return contract("ak,bk->ab", x, x)


def _half(x: ir.Value) -> ir.Value:
    """Half of the rows, rounded up."""
    rows, columns = sizes(x)
    extents = [arith.ceildivui(as_value(rows), index(2)), columns]
    return slice_of(x, [0, 0], extents, extents)


def _twice(x: ir.Value) -> ir.Value:
    """All rows, and then all rows again."""
    unknown = ir.ShapedType.get_dynamic_size()
    type_ = ir.RankedTensorType.get([unknown, x.type.shape[1]], x.type.element_type)
    return tensor.ConcatOp(type_, 0, [x, x]).result


def _one_row(x: ir.Value) -> ir.Value:
    rows, columns = map(as_value, sizes(x))
    return expand(collapse(x, [2]), [[1, arith.muli(rows, columns)]])


def _sums(x: ir.Value) -> ir.Value:
    """Of each row, as a column."""
    return expand(reduce("ab->a", arith.addf, 0.0, x), [[as_value(sizes(x)[0]), 1]])


_STEPS = (_transposed, _product, _half, _twice, _one_row, _sums)


@settings(max_examples=12, derandomize=True)
@given(
    steps=st.lists(st.tuples(st.sampled_from(_STEPS), st.integers(0, 9)), min_size=1, max_size=5),
    rows=st.integers(1, 6),
    columns=st.integers(1, 6),
)
def test_shapes_of_a_random_program(steps, rows, columns):
    """A step makes a tensor of one of those before it."""
    with new_context(), ir.Location.unknown():
        module = ir.Module.create()
        unknown = ir.ShapedType.get_dynamic_size()
        type_ = ir.RankedTensorType.get([unknown, unknown], T.f32())
        with ir.InsertionPoint(module.body):
            function = func.FuncOp("f", ([type_], []))
        with ir.InsertionPoint(function.add_entry_block()):
            made = [function.arguments[0]]
            for step, source in steps:
                made.append(step(made[source % len(made)]))
            func.ReturnOp(made[1:])
        function_type = ir.FunctionType.get([type_], [value.type for value in made[1:]])
        function.attributes["function_type"] = ir.TypeAttr.get(function_type)
        PropagateShapes().apply(module)
        module.operation.verify()
        formulas = [_formula(value) for value in made[1:]]
        results = call(module, "f", [np.zeros((rows, columns), np.float32)])
    sizes_ = {symbol("arg0_dim0"): rows, symbol("arg0_dim1"): columns}
    for formula, result in zip(formulas, results, strict=True):
        assert [each.subs(sizes_) for each in formula] == list(result.shape)


def _formula(value: ir.Value) -> list[sympy.Expr]:
    """What the operation says of its result."""
    if value.type.has_static_shape:
        return [sympy.Integer(extent) for extent in value.type.shape]
    names = {f"arg0_dim{dim}": symbol(f"arg0_dim{dim}") for dim in range(2)}
    texts = value.owner.attributes["llmc.shape"]
    return [sympy.sympify(ir.StringAttr(text).value, locals=names) for text in texts]


_POLYNOMIALS = st.lists(st.integers(-3, 3), min_size=4, max_size=4)


@settings(derandomize=True)
@given(st.lists(_POLYNOMIALS, min_size=1, max_size=6), st.integers(1, 9), st.integers(0, 9))
def test_the_largest_of_polynomials(factors, tokens, past):
    t, p = symbol("tokens"), symbol("past")
    terms = (t * p, t, p, sympy.Integer(1))
    polynomials = [
        sympy.Add(*(factor * term for factor, term in zip(each, terms, strict=True)))
        for each in factors
    ]
    values = {t: tokens, p: past}
    kept = largest(polynomials)
    assert len(kept) <= len(polynomials)
    expected = max(each.subs(values) for each in polynomials)
    assert max(each.subs(values) for each in kept) == expected


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("tokens*(past + 1)", 8 * 101),
        ("ceiling(tokens/3)*4", 12),
        ("floor(tokens/3)", 2),
        ("past - tokens", 99),
        ("tokens - past", 8),
        ("Max(tokens, past) - Min(tokens, 3)", 99),
        ("(tokens - past)*(past - tokens)", 8 * 99),
        ("tokens + n", None),
        ("12", 12),
    ],
)
def test_an_upper_bound_is_not_exceeded(text, bound):
    names = {name: symbol(name) for name in ("tokens", "past", "n")}
    expression = sympy.sympify(text, locals=names)
    limit = upper_bound(expression, {names["tokens"]: 8, names["past"]: 100})
    assert limit == bound
    if limit is not None:
        reached = [
            expression.subs({names["tokens"]: tokens, names["past"]: past})
            for tokens in range(1, 9)
            for past in (0, 1, 50, 100)
        ]
        assert max(reached) <= limit
