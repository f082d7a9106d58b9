"""A step of a recipe: what one MLIR operation does to weights, done when the archive is written."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
from torch_mlir import ir

from llmc.dialects.attributes import f64, i64


class RecipeError(Exception):
    """An attribute is no recipe, or its weights do not fit it; the text is one line."""


@dataclass(frozen=True)
class Step(ABC):
    """An operation on weights. Its fields (int, float, str, tuple[int, ...]) say how it is done.

    A subclass says in one place how the operation is recognised and, in numpy, what it computes.
    Weights that are stored as blocks come decoded, unless it `reads_blocks`.
    """

    operation: ClassVar[str]
    operands: ClassVar[int | None] = 1  # None: any number
    reads_blocks: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def match(cls, op: ir.OpView) -> Self | None:
        """The step that `op` takes; None where its attributes ask for what no step does."""

    @classmethod
    def weights(cls, op: ir.OpView) -> Sequence[ir.Value]:
        """The operands of `op` that are weights; the others are places for the result."""
        return list(op.operands)[: cls.operands]

    @abstractmethod
    def compute(self, *weights: np.ndarray) -> np.ndarray:
        """What the operation computes. ValueError or IndexError where the shapes do not fit."""

    def name(self, names: Sequence[str]) -> str:
        """A name for the result, from those of the operands."""
        return names[0]

    def attributes(self) -> dict[str, ir.Attribute]:
        """The fields as attributes."""
        return {
            field.name: _KINDS[field.type][1](getattr(self, field.name)) for field in fields(self)
        }

    @classmethod
    def read(cls, attributes: Mapping[str, ir.Attribute]) -> Self:
        """The step whose fields `attributes` holds; RecipeError where it does not."""
        values: dict[str, Any] = {}
        for field in fields(cls):
            kind = _KINDS[field.type][0]
            attribute = attributes.get(field.name)
            if not isinstance(attribute, kind):
                raise RecipeError(f"{cls.operation} needs '{field.name}', as {kind.attr_name}")
            numbers = kind is ir.DenseI64ArrayAttr
            values[field.name] = tuple(attribute) if numbers else attribute.value
        return cls(**values)


# The attribute that holds a field, by the type of the field.
_KINDS: dict[Any, tuple[Any, Any]] = {
    int: (ir.IntegerAttr, i64),
    float: (ir.FloatAttr, f64),
    str: (ir.StringAttr, ir.StringAttr.get),
    tuple[int, ...]: (ir.DenseI64ArrayAttr, ir.DenseI64ArrayAttr.get),
}
