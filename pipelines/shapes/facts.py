"""What is known of the values of a function: the extents of tensors, and integers."""

from collections.abc import Sequence
from typing import TypeAlias

import sympy
from sympy import Expr
from torch_mlir import ir

from llmc.pipelines.errors import fail
from llmc.pipelines.shapes.expressions import differ, text, unknown, unknown_integer

Shape: TypeAlias = tuple[Expr, ...]


class Facts:
    """Extents and integers as expressions, by value."""

    def __init__(self) -> None:
        self._shapes: dict[ir.Value, Shape] = {}
        self._integers: dict[ir.Value, Expr] = {}
        self._elements: dict[ir.Value, Shape] = {}

    def shape(self, tensor: ir.Value) -> Shape:
        """The extents of a ranked tensor. What nobody told is a symbol of its own."""
        if tensor not in self._shapes:
            type_ = ir.RankedTensorType(tensor.type)
            static = [_static(type_, dim) for dim in _dims(type_)]
            self._shapes[tensor] = tuple(unknown() if each is None else each for each in static)
        return self._shapes[tensor]

    def integer(self, value: ir.Value) -> Expr:
        """An integer or index. What nobody told is a symbol of its own, of any sign."""
        if value not in self._integers:
            self._integers[value] = unknown_integer()
        return self._integers[value]

    def elements(self, tensor: ir.Value) -> Shape | None:
        """The elements of a short tensor of integers, where they are known."""
        return self._elements.get(tensor)

    def set_shape(self, tensor: ir.Value, extents: Sequence[Expr], op: ir.Operation) -> None:
        """Says what the extents are; fails at `op` where the tensor's type says another number."""
        type_ = ir.RankedTensorType(tensor.type)
        shape = []
        for dim, extent in zip(_dims(type_), extents, strict=True):
            static = _static(type_, dim)
            if static is not None:
                same(op, static, extent)
            shape.append(extent if static is None else static)
        self._shapes[tensor] = tuple(shape)

    def set_integer(self, value: ir.Value, integer: Expr) -> None:
        """Says what an integer is."""
        self._integers[value] = integer

    def forget(self, value: ir.Value) -> None:
        """Makes `value` unknown again."""
        self._shapes.pop(value, None)
        self._integers.pop(value, None)
        self._elements.pop(value, None)

    def set_elements(self, tensor: ir.Value, elements: Sequence[Expr]) -> None:
        """Says what the elements of a tensor of integers are."""
        self._elements[tensor] = tuple(elements)


def is_tensor(value: ir.Value) -> bool:
    """Whether `value` is a ranked tensor."""
    return isinstance(value.type, ir.RankedTensorType)


def is_integer(value: ir.Value) -> bool:
    """Whether `value` is an integer or an index."""
    return isinstance(value.type, ir.IntegerType | ir.IndexType)


def same(op: ir.Operation, expected: Expr, actual: Expr) -> None:
    """Fails at `op` where two extents that must be equal never are."""
    if differ(expected, actual):
        fail(op, f"extents that must be equal are {text(expected)} and {text(actual)}")


def _dims(type_: ir.RankedTensorType) -> range:
    return range(type_.rank)


def _static(type_: ir.RankedTensorType, dim: int) -> Expr | None:
    return None if type_.is_dynamic_dim(dim) else sympy.Integer(type_.get_dim_size(dim))
