"""`llmc.rotary_table` of frequencies."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from torch_mlir import ir

from llmc.dialects.rotary_table import FUNCTIONS, RotaryTableOp
from llmc.pipelines.recipes.step import RecipeError, Step


@dataclass(frozen=True)
class RotaryTable(Step):
    """The table of `positions` rows of a function, with its scale."""

    operation: ClassVar[str] = "llmc.rotary_table"
    positions: int
    function: str
    scale: float

    def __post_init__(self) -> None:
        if self.function not in FUNCTIONS:
            raise RecipeError(f"{self.operation} has no function '{self.function}'")

    @classmethod
    def match(cls, op: ir.OpView) -> Self | None:
        """Any is such a step."""
        return cls(op.positions.value, op.function.value, op.scale.value)

    def compute(self, *weights: np.ndarray) -> np.ndarray:
        """The table."""
        (frequencies,) = weights
        return RotaryTableOp.reference(frequencies, self.positions, self.function, self.scale)

    def name(self, names: Sequence[str]) -> str:
        """The frequencies' name with the function's: `rotary_emb.inv_freq.cos`."""
        return f"{names[0]}.{self.function}"
