"""`tensor.collapse_shape` of a weight."""

from dataclasses import dataclass
from math import prod
from typing import ClassVar, Self

import numpy as np
from torch_mlir import ir

from llmc.dialects.block_types import block_format
from llmc.pipelines.recipes.step import Step


@dataclass(frozen=True)
class Collapse(Step):
    """The vector that a weight is, but for dimensions of one element."""

    operation: ClassVar[str] = "tensor.collapse_shape"

    @classmethod
    def match(cls, op: ir.OpView) -> Self | None:
        """To a vector, and not of a matrix or of blocks, which others read as they are."""
        if block_format(op.src.type):
            return None
        shape = op.src.type.shape
        return cls() if op.result.type.rank == 1 and max(shape, default=1) == prod(shape) else None

    def compute(self, *weights: np.ndarray) -> np.ndarray:
        """The vector."""
        (weight,) = weights
        return weight.reshape(-1)
