"""torch and torch_c: each operation by PyTorch's own of its name, on tensors held as arrays."""

from collections.abc import Callable
from functools import cmp_to_key
from typing import Any

import numpy as np
import torch
from torch_mlir import ir

from tests.interpreter.machine import Frame, Values, evaluates
from tests.interpreter.types import dense, element_of


@evaluates("torch.aten", "torch.prims")
def _call(frame: Frame, op: ir.Operation) -> Values:
    function = _function(op.name)
    values = list(map(_as_torch, frame.operands(op)))
    places = [argument for argument in function._schema.arguments if not argument.kwarg_only]
    names = [argument.name for argument in function._schema.arguments if argument.kwarg_only]
    named = dict(zip(names, values[len(places) :], strict=True))
    results = function(*values[: len(places)], **named)
    return [_as_held(result) for result in (results if len(op.results) > 1 else [results])]


def _function(name: str) -> Callable[..., Any]:
    """`torch.aten.mul.Tensor` is `torch.ops.aten.mul.Tensor`."""
    _, namespace, packet, *overload = name.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), *overload or ["default"])


def _as_torch(value: Any) -> Any:
    if isinstance(value, list):
        return [_as_torch(element) for element in value]
    # In the torch dialect tensors have no strides.
    return torch.from_numpy(value).contiguous() if isinstance(value, np.ndarray) else value


def _as_held(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return (value.double() if value.dtype == torch.float32 else value).numpy()


@evaluates("torch.constant")
def _constant(frame: Frame, op: ir.Operation) -> Values:
    return [op.attributes["value"].value if "value" in op.attributes else None]


@evaluates("torch.vtensor.literal")
def _literal(frame: Frame, op: ir.Operation) -> Values:
    return [dense(op.attributes["value"])]


@evaluates("torch.prim.ListConstruct")
def _list(frame: Frame, op: ir.Operation) -> Values:
    return [list(frame.operands(op))]


@evaluates("torch.prim.ListUnpack")
def _elements(frame: Frame, op: ir.Operation) -> Values:
    (values,) = frame.operands(op)
    return values


@evaluates("torch.prim.NumToTensor.Scalar")
def _tensor(frame: Frame, op: ir.Operation) -> Values:
    return [np.asarray(value) for value in frame.operands(op)]


@evaluates("torch_c.to_builtin_tensor", "torch_c.from_builtin_tensor")
def _same(frame: Frame, op: ir.Operation) -> Values:
    return frame.operands(op)


@evaluates("torch_c.to_i64", "torch_c.to_i1", "torch_c.to_f64")
def _to_builtin(frame: Frame, op: ir.Operation) -> Values:
    return [np.asarray(value, element_of(op.results[0])) for value in frame.operands(op)]


@evaluates("torch_c.from_i64", "torch_c.from_i1", "torch_c.from_f64")
def _to_python(frame: Frame, op: ir.Operation) -> Values:
    return [value.item() for value in frame.operands(op)]


@evaluates("torch.runtime.assert")
def _assert(frame: Frame, op: ir.Operation) -> Values:
    (holds,) = frame.operands(op)
    assert holds, op.attributes["message"]
    return []


@evaluates("tm_tensor.sort")
def _sort(frame: Frame, op: ir.Operation) -> Values:
    """Sorts rows of all operands alike."""
    arrays, axis = frame.operands(op), ir.IntegerAttr(op.attributes["dimension"]).value
    rows = [np.moveaxis(array, axis, -1) for array in arrays]
    order = np.zeros(rows[0].shape, np.int64)
    for which in np.ndindex(*order.shape[:-1]):
        order[which] = _order(frame, op, [array[which] for array in rows])
    return [np.moveaxis(np.take_along_axis(array, order, -1), -1, axis) for array in rows]


def _order(frame: Frame, op: ir.Operation, rows: Values) -> list[int]:
    """Which place of `rows` comes first, by what the region says of two."""

    def compare(a: int, b: int) -> int:
        pair = [row[place] for row in rows for place in (a, b)]
        (is_before,) = frame.run(op.regions[0].blocks[0], pair)
        return -1 if is_before else 1

    return sorted(range(len(rows[0])), key=cmp_to_key(compare))
