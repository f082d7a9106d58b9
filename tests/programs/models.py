"""Programs with the shape of a model: trunks that call layers, as the importer leaves them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, func, math, tensor
from torch_mlir.extras import types as T

from llmc.dialects import EmbeddingOp
from llmc.dialects.index_notation import (
    collapse,
    constant,
    expand,
    pointwise,
    sizes,
    slice_of,
)
from llmc.runtime import abi
from tests.programs.blocks import Linear, Norm
from tests.programs.idioms import last_token, linear, look_up
from tests.programs.scope import Scope, Weights, f32
from tests.programs.step import Step

LONGEST = 8
"""The most tokens that a model with learned positions takes."""

_BATCH_AND_TOKENS = {abi.PREFILL: (1, -1), abi.DECODE: (1, 1), abi.DECODE_BATCH: (-1, 1)}


@dataclass(frozen=True)
class Model:
    """What a model is made of: `layers` lists the kind of each, `kinds` their steps."""

    kinds: tuple[tuple[Step, ...], ...]
    layers: tuple[int, ...]
    variants: tuple[str, ...] = (abi.PREFILL,)
    before: tuple[Step, ...] = ()
    width: int = 8
    rotary: int = 4
    stored_frequencies: bool = True
    rotary_scale: float | None = None
    vocabulary: int = 5
    embedding: str = "lookup"
    learned_positions: bool = False
    tied: bool = True
    last: str = "norm"
    softcap: bool = False


def build_model(model: Model, context: ir.Context) -> tuple[ir.Module, Weights]:
    """Its module, and the weights that this names."""
    weights: Weights = {}
    with context, ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            for variant in model.variants:
                for kind, steps in enumerate(model.kinds):
                    if kind in model.layers:
                        _build_layer(model, variant, kind, steps, weights)
                _build_trunk(model, variant, weights)
        module.operation.verify()
    return module, weights


def _layer_name(variant: str, kind: int) -> str:
    return f"{variant}.layer{kind}"


def _layer_types(model: Model, variant: str) -> list[ir.Type]:
    batch, tokens = _BATCH_AND_TOKENS[variant]
    i64 = T.i64()
    table = f32(batch, tokens, model.rotary)
    positions = ir.RankedTensorType.get(table.shape[:2], i64)
    return [f32(batch, tokens, model.width), table, table, positions]


def _build_layer(
    model: Model, variant: str, kind: int, steps: Sequence[Step], weights: Weights
) -> None:
    types = _layer_types(model, variant)
    function = func.FuncOp(_layer_name(variant, kind), (types, types[:1]), visibility="private")
    with ir.InsertionPoint(function.add_entry_block()):
        hidden, cos, sin, positions = function.arguments
        layers = [number for number, its in enumerate(model.layers) if its == kind]
        scope = Scope(hidden, weights, layers, positions=positions, tables=(cos, sin))
        for step in steps:
            step.apply(scope)
        func.ReturnOp([scope.hidden])


def _build_trunk(model: Model, variant: str, weights: Weights) -> None:
    hidden_type, _, _, ids = _layer_types(model, variant)
    batch, _ = _BATCH_AND_TOKENS[variant]
    function = func.FuncOp(variant, ([ids, ids], [f32(batch, model.vocabulary)]))
    with ir.InsertionPoint(function.add_entry_block()):
        tokens, positions = function.arguments
        scope = Scope(tokens, weights, positions=positions)
        table = scope.named_parameter("embedding", model.vocabulary, model.width)
        scope.hidden = _embed(model, tokens, table, hidden_type)
        if model.learned_positions:
            learned = scope.named_parameter("positions", LONGEST, model.width)
            there = look_up(positions, learned)
            scope.hidden = arith.addf(scope.hidden, there)
        scope.tables = cos, sin = _rotary_tables(model, scope, positions)
        for step in model.before:
            step.apply(scope)
        for kind in model.layers:
            operands = [scope.hidden, cos, sin, positions]
            call = func.CallOp([hidden_type], _layer_name(variant, kind), operands)
            (scope.hidden,) = call.results
        func.ReturnOp([_logits(model, scope, table)])


def _embed(model: Model, tokens: ir.Value, table: ir.Value, type_: ir.RankedTensorType) -> ir.Value:
    if model.embedding == "operation":
        return EmbeddingOp(tokens, table, type_).out
    bound = model.vocabulary if model.embedding == "checked" else None
    return look_up(tokens, table, bound)


def _rotary_tables(model: Model, scope: Scope, positions: ir.Value) -> tuple[ir.Value, ir.Value]:
    """`[B, T, R]`: cosine and sine of the positions times frequencies, each half alike."""
    f32_ = T.f32()
    batch, tokens = sizes(positions)
    column = expand(positions, [[batch], [tokens, 1]])
    column = pointwise("bts->bts", lambda p, _: arith.sitofp(f32_, p), column, element=f32_)
    frequencies = _frequencies(model, scope)
    angles = pointwise("bt1,r->btr", lambda p, f, _: arith.mulf(p, f), column, frequencies)
    shape = [*angles.type.shape[:2], model.rotary]
    whole = tensor.concat(ir.RankedTensorType.get(shape, f32_), 2, [angles, angles])
    cos, sin = (_elementwise(whole, function) for function in (math.cos, math.sin))
    if model.rotary_scale is None:
        return cos, sin
    scale = model.rotary_scale
    cos, sin = (
        _elementwise(table, lambda x: arith.mulf(x, constant(scale, f32_))) for table in (cos, sin)
    )
    return cos, sin


def _frequencies(model: Model, scope: Scope) -> ir.Value:
    if model.stored_frequencies:
        return scope.named_parameter("frequencies", model.rotary // 2)
    values = 1 / 10 ** np.arange(model.rotary // 2, dtype=np.float32)
    return arith.constant(f32(len(values)), ir.DenseElementsAttr.get(values))


def _elementwise(x: ir.Value, function: Callable[[ir.Value], ir.Value]) -> ir.Value:
    return pointwise("btn->btn", lambda element, _: function(element), x)


def _logits(model: Model, scope: Scope, table: ir.Value) -> ir.Value:
    """`[B, V]`: norm, head and the choice of the last token, in the order of `model.last`."""
    x = scope.hidden
    if model.last == "hidden":
        x = last_token(x)
    x = Norm().build(scope, x)
    if model.last == "norm":
        x = last_token(x)
    x = _head(model, scope, x, table)
    if model.softcap:
        x = _elementwise(x, lambda a: math.tanh(arith.mulf(a, constant(0.3, a.type))))
    if model.last == "logits":
        x = last_token(x)
    # The head's own slice of what it has, as torch.export leaves it.
    batch, rows, width = sizes(x)
    extents = [batch, rows, width]
    return collapse(slice_of(x, [0, 0, 0], extents, extents), [2, 1])


def _head(model: Model, scope: Scope, x: ir.Value, table: ir.Value) -> ir.Value:
    if not model.tied:
        return Linear().build(scope, x, model.vocabulary)
    return linear(x, table)
