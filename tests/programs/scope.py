"""A function of a program while it is built, and the weights that the program asks for."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from torch_mlir import ir
from torch_mlir.extras import types as T

from llmc.dialects import ParameterOp
from llmc.dialects.block_types import block_format

Weights = dict[str, np.ndarray]

_BLOCK = 16
"""The values of the smallest blocks."""


@dataclass
class Scope:
    """Where steps find what they work on.

    `hidden` is `[batch, tokens, width]` in f32; `saved` are earlier values of it. `tables` are the
    rotary tables `[batch, tokens, channels]`. In a layer's function a weight has a source for each
    of `layers`; it is empty in a trunk.
    """

    hidden: ir.Value
    weights: Weights
    layers: Sequence[int] = ()
    kind: int | None = None
    positions: ir.Value | None = None
    tables: tuple[ir.Value, ir.Value] | None = None
    saved: list[ir.Value] = field(default_factory=list)
    parameters: int = 0

    @property
    def width(self) -> int:
        """The size of `hidden`'s last dimension."""
        return self.hidden.type.shape[2]

    def like_hidden(self, *last: int) -> ir.RankedTensorType:
        """The type of `hidden` with other extents in the place of the last."""
        return f32(*self.hidden.type.shape[:-1], *last)

    def parameter(self, *shape: int, element: ir.Type | None = None) -> ir.Value:
        """A weight of its own, exact in all element types and in blocks of 4 bits."""
        name = f"weight{self.parameters}"
        self.parameters += 1
        return self.named_parameter(name, *shape, element=element)

    def named_parameter(self, name: str, *shape: int, element: ir.Type | None = None) -> ir.Value:
        """The weight called `name` in this function's part of the model."""
        type_ = ir.RankedTensorType.get(shape, element or T.f32())
        prefix = [f"layers.{layer}." for layer in self.layers] or [""]
        sources = [f"{each}{name}" for each in prefix]
        for source in sources:
            self.weights.setdefault(source, _random_weight(source, type_))
        attribute = ir.ArrayAttr.get([ir.StringAttr.get(source) for source in sources])
        return ParameterOp(attribute, type_).out


def f32(*shape: int) -> ir.RankedTensorType:
    """A tensor type; -1 is a dynamic dimension."""
    unknown = ir.ShapedType.get_dynamic_size()
    extents = [unknown if extent < 0 else extent for extent in shape]
    return ir.RankedTensorType.get(extents, T.f32())


def _random_weight(name: str, type_: ir.RankedTensorType) -> np.ndarray:
    generator = np.random.default_rng(list(name.encode()))
    format_, shape = block_format(type_), list(type_.shape)
    if format_ is not None:
        shape[-1] *= format_.values
    if len(shape) < 2 or all(extent % _BLOCK for extent in shape[-2:]):
        return generator.integers(-32, 33, shape) / 32
    values = generator.integers(-8, 8, shape) / 8
    _make_exact_in_blocks(values)
    return values if format_ is None else format_.encode(values)


def _make_exact_in_blocks(values: np.ndarray) -> None:
    """Gives every block the least and the largest of 16 values, so that 4 bits hold them all."""
    *_, rows, columns = values.shape
    for row in range(rows):
        for shift, value in ((0, -8), (1, 7)):
            column = (row + shift) % _BLOCK
            values[..., row, column:columns:_BLOCK] = value / 8
