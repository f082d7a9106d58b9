"""`llmc.repeat_rows` of a matrix."""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from torch_mlir import ir

from llmc.dialects import RepeatRowsOp
from llmc.pipelines.recipes.step import Step


@dataclass(frozen=True)
class RepeatRows(Step):
    """The rows, floats or blocks, and its first ones again, until there are `rows`."""

    operation: ClassVar[str] = "llmc.repeat_rows"
    reads_blocks: ClassVar[bool] = True
    rows: int

    @classmethod
    def match(cls, op: ir.OpView) -> Self | None:
        """Any is such a step."""
        return cls(op.out.type.shape[0])

    def compute(self, *weights: np.ndarray) -> np.ndarray:
        """All rows."""
        (weight,) = weights
        return RepeatRowsOp.reference(weight, self.rows)
