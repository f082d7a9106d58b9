"""`linalg.transpose` of a weight."""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from torch_mlir import ir

from llmc.pipelines.recipes.step import Step


@dataclass(frozen=True)
class Transpose(Step):
    """Dimension i of the result is dimension `permutation[i]` of the operand."""

    operation: ClassVar[str] = "linalg.transpose"
    permutation: tuple[int, ...]

    @classmethod
    def match(cls, op: ir.OpView) -> Self | None:
        """Any transposition is such a step."""
        return cls(tuple(op.permutation))

    def compute(self, *weights: np.ndarray) -> np.ndarray:
        """The transposition."""
        (weight,) = weights
        return weight.transpose(self.permutation)
