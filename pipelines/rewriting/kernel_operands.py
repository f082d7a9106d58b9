"""What a kernel reads: tensors whole, weights of one layer from the stack of all layers'."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor
from torch_mlir.extras import types as T

from llmc.dialects.index_notation import Size, collapse, expand, index, slice_of, slice_of_rows
from llmc.dialects.linear_rows import apart, merged
from llmc.dialects.quantize import in_rows
from llmc.pipelines.rewriting.operations import made_by

Reader = Callable[[Sequence[ir.Value]], ir.Value]
"""Gives a value within a kernel, from the kernel's arguments."""


@dataclass
class KernelOperands:
    """The operands of a kernel, each once."""

    values: list[ir.Value] = field(default_factory=list)

    def read(self, value: ir.Value, view: Callable[[ir.Value], ir.Value] | None = None) -> Reader:
        """How the kernel reads `value`, or a view of it.

        Of the slice of a stack it takes the stack and the number, so that nothing is copied; a
        scalar of 64 bits it is told as an index.
        """
        if value.type == T.i64():
            return self._read_integer(value)
        stack, number = stack_and_number(value)
        at = self._add(stack if view is None else view(stack))
        if number is None:
            return lambda arguments: arguments[at]
        layer = self._add(number)

        def read(arguments: Sequence[ir.Value]) -> ir.Value:
            _, *shape = arguments[at].type.shape
            start = [arguments[layer], *[0] * len(shape)]
            return slice_of(arguments[at], start, [1, *shape], shape)

        return read

    def _read_integer(self, value: ir.Value) -> Reader:
        at = self._add(arith.index_cast(T.index(), value))
        return lambda arguments: arith.index_cast(value.type, arguments[at])

    def _add(self, value: ir.Value) -> int:
        if value not in self.values:
            self.values.append(value)
        return self.values.index(value)


def stack_and_number(value: ir.Value) -> tuple[ir.Value, ir.Value | None]:
    """The tensor `[L, ...]` of which `value [...]` is one, and which; else `value` and None."""
    slice_ = made_by(value, "tensor.extract_slice")
    if slice_ is None:
        return value, None
    source, *offsets = slice_.operands
    whole = [1, *value.type.shape]
    starts = list(slice_.opview.static_offsets)
    dynamic = ir.ShapedType.get_dynamic_size()
    is_one = (
        len(offsets) == 1
        and starts == [dynamic, *[0] * len(value.type.shape)]
        and list(slice_.opview.static_sizes) == whole
        and source.type.shape[1:] == value.type.shape
    )
    return (source, offsets[0]) if is_one else (value, None)


def as_rows(value: ir.Value, width: int, dynamic: bool = False) -> ir.Value:
    """`value [..., N]` as `[T, N / width, width]`; T is as `as_matrix` has it."""
    return in_rows(as_matrix(value, dynamic), width)


def as_matrix(value: ir.Value, dynamic: bool = False) -> ir.Value:
    """`value [..., N]` as `[T, N]`, all leading dimensions merged.

    With `dynamic` T is so even where it is known: a kernel is the same for all numbers of rows.
    """
    rows = merged(value)
    if dynamic and not rows.type.is_dynamic_dim(0):
        shape = [ir.ShapedType.get_dynamic_size(), rows.type.shape[1]]
        rows = tensor.cast(ir.RankedTensorType.get(shape, rows.type.element_type), rows)
    return rows


def stack_and_place(value: ir.Value) -> tuple[ir.Value, ir.Value]:
    """As `stack_and_number`; of what is cut from no stack a stack of one, and 0."""
    stack, number = stack_and_number(value)
    if number is not None:
        return stack, number
    return expand(stack, [[1, stack.type.shape[0]]]), index(0)


def _as_many(rows: ir.Value, leading: list[Size]) -> ir.Value:
    """`rows [T, N]`, T being the product of `leading`, as many as are known of."""
    if not all(isinstance(extent, int) for extent in leading):
        return rows
    shape = [prod(leading), rows.type.shape[1]]
    return tensor.cast(ir.RankedTensorType.get(shape, rows.type.element_type), rows)


def from_panels(y: ir.Value, leading: list[Size], outputs: int, bias: ir.Value | None) -> ir.Value:
    """The first `outputs` of a row of `y [T, P, J]`, with `bias` if any, as `[..., N]`.

    `leading` are the extents of T.
    """
    y = _as_many(collapse(y, [1, 2]), leading)
    if outputs < y.type.shape[1]:
        y = slice_of_rows(y, 0, outputs)
    return apart(y, leading, bias)
