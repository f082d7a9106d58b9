"""The llmc operations, each by its `reference`, whose parameters bear the names of its fields."""

import inspect
from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import ext

from llmc.dialects import OPERATIONS, BitcastOp
from llmc.dialects.block_types import storage_format
from tests.interpreter.machine import EVALUATORS, Frame, Values, evaluates
from tests.interpreter.types import dtype_of, element_of, undefined

_REFERENCES = {name: op for name, op in OPERATIONS.items() if name not in EVALUATORS}


@evaluates(*_REFERENCES)
def _refer(frame: Frame, op: ir.Operation) -> Values:
    kind = _REFERENCES[op.name]
    fields = _fields(frame, kind, op) | _sizes(op)
    results = kind.reference(**_wanted(kind, fields))
    results = results if isinstance(results, tuple) else (results,)
    return [_as_held(value, out) for value, out in zip(results, op.results, strict=True)]


@evaluates("llmc.cache_allocate")
def _allocate(frame: Frame, op: ir.Operation) -> Values:
    sequences, capacity = (int(value) for value in frame.operands(op))
    (out,) = op.results
    layers, _, heads, _, channels = out.type.shape
    return [undefined([layers, sequences, heads, capacity, channels], element_of(out))]


@evaluates("llmc.bitcast")
def _bitcast(frame: Frame, op: ir.Operation) -> Values:
    (x,), (out,) = frame.operands(op), op.results
    if out.type.element_type.width == 4:  # of which numpy has none: the lower half comes first
        return [np.stack([x & 15, x >> 4 & 15], -1).reshape(out.type.shape)]
    return [BitcastOp.reference(x, dtype_of(out.type.element_type))]


def _fields(frame: Frame, kind: type, op: ir.Operation) -> dict[str, Any]:
    """Operands, None where there is none, and attributes, by name."""
    fields: dict[str, Any] = {}
    for field in kind._fields:  # as `ext` keeps them
        value = getattr(op.opview, field.name, None)
        if isinstance(field, ext.OperandDef):
            fields[field.name] = None if value is None else _operand(frame, value)
        elif isinstance(field, ext.AttributeDef) and hasattr(value, "value"):
            fields[field.name] = value.value
    return fields


def _wanted(kind: type, fields: dict[str, Any]) -> dict[str, Any]:
    """What of `fields` the reference takes; None only where it has no default of its own."""
    parameters = inspect.signature(kind.reference).parameters.values()
    return {
        parameter.name: fields[parameter.name]
        for parameter in parameters
        if fields.get(parameter.name) is not None
        or (parameter.name in fields and parameter.default is parameter.empty)
    }


def _operand(frame: Frame, value: ir.Value) -> np.ndarray | int:
    array = frame.values[value]
    return array if isinstance(value.type, ir.ShapedType) else int(array)


def _sizes(op: ir.Operation) -> dict[str, Any]:
    """What references need to know of the results' types."""
    first, *others = [result.type for result in op.results]
    second, last = (others[0], others[-1]) if others else (first, first)
    return {
        "outputs": first.shape[-1],
        "experts": second.shape[0] - 1,
        "element": dtype_of(last.element_type),
        "format_": storage_format(last),
    }


def _as_held(value: np.ndarray, out: ir.Value) -> np.ndarray:
    dtype = element_of(out)
    return value if value.dtype == dtype else value.astype(dtype)
