"""`llmc.block_field` of blocks."""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from torch_mlir import ir

from llmc.dialects import BlockFieldOp
from llmc.pipelines.recipes.step import Step


@dataclass(frozen=True)
class BlockField(Step):
    """One field of every block of a weight."""

    operation: ClassVar[str] = "llmc.block_field"
    reads_blocks: ClassVar[bool] = True
    field: str

    @classmethod
    def match(cls, op: ir.OpView) -> Self | None:
        """Any is such a step."""
        return cls(op.field.value)

    def compute(self, *weights: np.ndarray) -> np.ndarray:
        """The field."""
        (weight,) = weights
        return BlockFieldOp.reference(weight, self.field)
