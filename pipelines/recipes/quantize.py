"""`llmc.quantize` of a weight."""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from torch_mlir import ir

from llmc.dialects.blocks import FORMATS, decode, format_of
from llmc.pipelines.recipes.step import RecipeError, Step


@dataclass(frozen=True)
class Quantize(Step):
    """The blocks of `format` nearest to the weight: those that it holds, if they are of it."""

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
        format_ = FORMATS[self.format]
        return weight if format_of(weight) == format_ else format_.encode(decode(weight))
