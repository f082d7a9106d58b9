"""torch and torch_c: each operation by PyTorch's own of its name, on tensors held as arrays."""

from collections.abc import Callable
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
