"""`llmc.split_float` of floats."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from torch_mlir import ir

from llmc.dialects.float_parts import PARTS, split
from llmc.pipelines.recipes.step import RecipeError, Step


@dataclass(frozen=True)
class SplitFloat(Step):
    """The high or the low bits of each number."""

    operation: ClassVar[str] = "llmc.split_float"
    part: str

    def __post_init__(self) -> None:
        if self.part not in PARTS:
            raise RecipeError(f"{self.operation} has no part '{self.part}'")

    @classmethod
    def match(cls, op: ir.OpView) -> Self | None:
        """Any is such a step."""
        return cls(op.part.value)

    def compute(self, *weights: np.ndarray) -> np.ndarray:
        """The bits, as integers."""
        (weight,) = weights
        return split(weight, self.part)

    def name(self, names: Sequence[str]) -> str:
        """The weight's, and the part's."""
        return f"{names[0]}.{self.part}"
