"""`llmc.rough_metric` and `llmc.rough_spread` of a matrix."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from torch_mlir import ir

from llmc.dialects.rough_products import metric, spread
from llmc.pipelines.recipes.step import Step


@dataclass(frozen=True)
class RoughMetric(Step):
    """The factors for columns of a matrix by which `RoughSpread` measures lengths."""

    operation: ClassVar[str] = "llmc.rough_metric"
    reads_blocks: ClassVar[bool] = True

    @classmethod
    def match(cls, op: ir.OpView) -> Self | None:
        """Any is such a step."""
        return cls()

    def compute(self, *weights: np.ndarray) -> np.ndarray:
        """A number for each column."""
        (weight,) = weights
        return metric(weight)

    def name(self, names: Sequence[str]) -> str:
        """The weight's, and `metric`."""
        return f"{names[0]}.metric"


@dataclass(frozen=True)
class RoughSpread(Step):
    """How far rough products by a matrix may be from whole ones, given its metric."""

    operation: ClassVar[str] = "llmc.rough_spread"
    operands: ClassVar[int | None] = 2
    reads_blocks: ClassVar[bool] = True

    @classmethod
    def match(cls, op: ir.OpView) -> Self | None:
        """Any is such a step."""
        return cls()

    def compute(self, *weights: np.ndarray) -> np.ndarray:
        """A number for each row."""
        weight, factors = weights
        return spread(weight, factors)

    def name(self, names: Sequence[str]) -> str:
        """The weight's, and `spread`."""
        return f"{names[0]}.spread"
