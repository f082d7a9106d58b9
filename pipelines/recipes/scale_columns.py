"""`llmc.scale_columns` of a weight."""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from torch_mlir import ir

from llmc.dialects.scale_columns import ScaleColumnsOp
from llmc.pipelines.recipes.step import Step


@dataclass(frozen=True)
class ScaleColumns(Step):
    """Column k of the first operand times `offset` plus number k of the second."""

    operation: ClassVar[str] = "llmc.scale_columns"
    operands: ClassVar[int | None] = 2
    offset: float

    @classmethod
    def match(cls, op: ir.OpView) -> Self | None:
        """Any is such a step."""
        return cls(op.offset.value)

    def compute(self, *weights: np.ndarray) -> np.ndarray:
        """The product, in the weights' type."""
        weight, scale = weights
        return ScaleColumnsOp.reference(weight, scale, self.offset)
