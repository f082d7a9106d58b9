"""`llmc.plane_metric` and `llmc.plane_spread` of blocks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from torch_mlir import ir

from llmc.dialects.bit_planes import metric, spread
from llmc.pipelines.recipes.step import Step


@dataclass(frozen=True)
class PlaneMetric(Step):
    """The factors for columns of a matrix of blocks by which `PlaneSpread` measures lengths."""

    operation: ClassVar[str] = "llmc.plane_metric"
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
class PlaneSpread(Step):
    """How far rough products by a matrix of blocks may be from whole ones, given its metric."""

    operation: ClassVar[str] = "llmc.plane_spread"
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
