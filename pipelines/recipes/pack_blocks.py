"""`llmc.pack_blocks` of blocks."""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from torch_mlir import ir

from llmc.dialects.block_panels import pack_blocks
from llmc.pipelines.recipes.step import Step


@dataclass(frozen=True)
class PackBlocks(Step):
    """The panels of `columns` rows of a matrix of blocks."""

    operation: ClassVar[str] = "llmc.pack_blocks"
    reads_blocks: ClassVar[bool] = True
    columns: int

    @classmethod
    def match(cls, op: ir.OpView) -> Self | None:
        """Any is such a step."""
        return cls(op.columns.value)

    def compute(self, *weights: np.ndarray) -> np.ndarray:
        """The panels, as bytes."""
        (weight,) = weights
        return pack_blocks(weight, self.columns)
