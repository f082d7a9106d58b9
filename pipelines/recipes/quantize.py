"""`llmc.quantize` of a weight."""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from torch_mlir import ir

from llmc.dialects.blocks import FORMATS, recode
from llmc.pipelines.recipes.step import RecipeError, Step


@dataclass(frozen=True)
class Quantize(Step):
    """The blocks of `format` nearest to the weight, which may be blocks: see `blocks.recode`."""

    operation: ClassVar[str] = "llmc.quantize"
    reads_blocks: ClassVar[bool] = True
    format: str

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise RecipeError(f"{self.operation} has no format '{self.format}'")

    @classmethod
    def match(cls, op: ir.OpView) -> Self | None:
        """Any is such a step."""
        return cls(op.out.type.element_type.format.name)

    def compute(self, *weights: np.ndarray) -> np.ndarray:
        """The blocks."""
        (weight,) = weights
        return recode(weight, FORMATS[self.format])
