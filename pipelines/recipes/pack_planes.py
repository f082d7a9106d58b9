"""`llmc.pack_planes` of blocks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from torch_mlir import ir

from llmc.dialects.block_parts import PLANES, pack_planes
from llmc.pipelines.recipes.step import RecipeError, Step


@dataclass(frozen=True)
class PackPlanes(Step):
    """The high or the low bits of a matrix of blocks, in panels of `columns` rows."""

    operation: ClassVar[str] = "llmc.pack_planes"
    reads_blocks: ClassVar[bool] = True
    columns: int
    part: str

    def __post_init__(self) -> None:
        if self.part not in PLANES:
            raise RecipeError(f"{self.operation} has no part '{self.part}'")

    @classmethod
    def match(cls, op: ir.OpView) -> Self | None:
        """Any is such a step."""
        return cls(op.columns.value, op.part.value)

    def compute(self, *weights: np.ndarray) -> np.ndarray:
        """The panels, as bytes."""
        (weight,) = weights
        return pack_planes(weight, PLANES[self.part], self.columns)

    def name(self, names: Sequence[str]) -> str:
        """The weight's, and the part's."""
        return f"{names[0]}.{self.part}"
