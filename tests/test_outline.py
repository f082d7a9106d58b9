"""Outlined kernels, scheduled or not, compute what the program did."""

from collections.abc import Callable

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch_mlir import ir
from torch_mlir.dialects import arith, func, linalg, math, tensor
from torch_mlir.extras import types as T

from llmc.dialects.index_notation import (
    collapse,
    constant,
    contract,
    expand,
    pointwise,
    reduce,
    sizes,
)
from llmc.pipelines.kernels.marks import KIND
from llmc.pipelines.passes.apply_schedule import ApplySchedule
from llmc.pipelines.passes.outline_kernels import OutlineKernels
from llmc.pipelines.passes.schedule_kernels import ScheduleKernels
from llmc.pipelines.rewriting.functions import functions
from llmc.pipelines.schedules.registry import SCHEDULES
from llmc.pipelines.walks import find
from tests.scheduled import call, into_dispatches, new_context

_CHANNELS = 24


def _linear(x: ir.Value, w: ir.Value) -> ir.Value:
    return contract("tk,nk->tn", x, w)


def _norm(x: ir.Value, _: ir.Value) -> ir.Value:
    def scale(x: ir.Value, total: ir.Value, _: ir.Value) -> ir.Value:
        return arith.mulf(x, math.rsqrt(arith.addf(total, constant(1.0, total.type))))

    squares = reduce("tc->t", lambda x, s: arith.addf(s, arith.mulf(x, x)), 0.0, x)
    return pointwise("tc,t->tc", scale, x, squares)


def _softmax(x: ir.Value, _: ir.Value) -> ir.Value:
    return linalg.softmax([x.type], x, tensor.empty(sizes(x), x.type.element_type), 1)


def _gate(x: ir.Value, w: ir.Value) -> ir.Value:
    """A product whose result goes two ways, which meet again."""
    y = _linear(x, w)
    s = pointwise("tc->tc", lambda y, _: math.tanh(y), y)
    return pointwise("tc,tc->tc", lambda y, s, _: arith.mulf(y, s), y, s)


def _residual(x: ir.Value, w: ir.Value) -> ir.Value:
    return pointwise("tc,tc->tc", lambda x, y, _: arith.addf(x, y), x, _norm(_linear(x, w), w))


def _after_activation(x: ir.Value, w: ir.Value) -> ir.Value:
    """A product of what is computed of rows that had another shape."""
    y = expand(x, [[1, x.type.shape[0]], [_CHANNELS]])
    y = pointwise("btc->btc", lambda y, _: math.tanh(y), y)
    y = pointwise("tc->tc", lambda y, _: math.exp(y), collapse(y, [2, 1]))
    return _linear(y, w)


def _last_positive(x: ir.Value, _: ir.Value) -> ir.Value:
    """A reduction whose partial results cannot be combined."""

    def later(x: ir.Value, found: ir.Value) -> ir.Value:
        zero = constant(0.0, x.type)
        return arith.select(arith.cmpf(arith.CmpFPredicate.OGT, x, zero), x, found)

    found = reduce("tc->t", later, 0.0, x)
    return pointwise("tc,t->tc", lambda x, y, _: arith.subf(x, y), x, found)


_STEPS = (_linear, _norm, _softmax, _gate, _residual, _after_activation)


def _programs(*steps: Callable) -> st.SearchStrategy:
    """Steps, each of which makes a tensor of one of those before it."""
    step = st.tuples(st.sampled_from(steps), st.integers(0, 9))
    return st.lists(step, min_size=1, max_size=5)


@settings(max_examples=3, derandomize=True)
@given(steps=_programs(*_STEPS), tokens=st.sampled_from([1, 5]))
@example(steps=[(_after_activation, 0)], tokens=1)
def test_values_of_a_random_program(steps, tokens):
    arguments = _arguments(tokens)
    with new_context(), ir.Location.unknown():
        module = _program(steps, tokens)
        plain = call(module, "f", arguments)
        OutlineKernels().apply(module)
        module.operation.verify()
        assert not _computations(module)
        outlined = call(module, "f", arguments)
        for schedule in SCHEDULES:
            ApplySchedule(schedule=schedule).apply(module)
        module.operation.verify()
        assert not find(module.operation, "linalg.generic", "linalg.softmax", "linalg.fill")
        into_dispatches(module)
        scheduled = call(module, "f", arguments)
    for before, after, last in zip(plain, outlined, scheduled, strict=True):
        np.testing.assert_allclose(after, before, rtol=0, atol=1e-5)
        np.testing.assert_allclose(last, before, rtol=0, atol=1e-5)


@settings(max_examples=3, derandomize=True)
@given(steps=_programs(*_STEPS, _last_positive), tokens=st.sampled_from([1, 5]))
@example(steps=[(_last_positive, 0), (_linear, 1)], tokens=5)
def test_values_of_a_program_by_the_rules(steps, tokens):
    arguments = _arguments(tokens)
    with new_context(), ir.Location.unknown():
        module = _program(steps, tokens)
        plain = call(module, "f", arguments)
        OutlineKernels().apply(module)
        ScheduleKernels().apply(module)
        module.operation.verify()
        is_left = bool(find(module.operation, "linalg.generic"))
        assert is_left == any(step is _last_positive for step, _ in steps)
        into_dispatches(module)
        scheduled = call(module, "f", arguments)
    for before, after in zip(plain, scheduled, strict=True):
        np.testing.assert_allclose(after, before, rtol=0, atol=1e-5)


def _arguments(tokens: int) -> list[np.ndarray]:
    random = np.random.default_rng(tokens)
    x = random.standard_normal((tokens, _CHANNELS)).astype(np.float32)
    w = (random.standard_normal((_CHANNELS, _CHANNELS)) / 5).astype(np.float32)
    return [x, w]


def _program(steps: list, tokens: int) -> ir.Module:
    module = ir.Module.create()
    f32 = T.f32()
    types = [ir.RankedTensorType.get([rows, _CHANNELS], f32) for rows in (tokens, _CHANNELS)]
    with ir.InsertionPoint(module.body):
        function = func.FuncOp("f", (types, []))
    with ir.InsertionPoint(function.add_entry_block()):
        x, w = function.arguments
        made = [x]
        for step, source in steps:
            made.append(step(made[source % len(made)], w))
        func.ReturnOp(made[1:])
    type_ = ir.FunctionType.get(types, [value.type for value in made[1:]])
    function.attributes["function_type"] = ir.TypeAttr.get(type_)
    return module


def _computations(module: ir.Module) -> list[ir.Operation]:
    """What is left of linalg outside of kernels."""
    return [
        op
        for function in functions(module)
        if KIND not in function.attributes
        for op in find(function.operation, "linalg.generic", "linalg.softmax", "linalg.fill")
    ]
