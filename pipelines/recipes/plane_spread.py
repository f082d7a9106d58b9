"""`llmc.plane_metric` and `llmc.plane_spread` of blocks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from torch_mlir import ir

from llmc.dialects.bit_planes import metric, spread
from llmc.dialects.blocks import Q8_0
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
        return metric(_checked(weight))

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
        if factors.shape != (Q8_0.values * _checked(weight).shape[1],):
            raise ValueError(f"{factors.shape} is no metric of a matrix {weight.shape} of blocks")
        return spread(weight, factors)

    def name(self, names: Sequence[str]) -> str:
        """The weight's, and `spread`."""
        return f"{names[0]}.spread"


def _checked(weight: np.ndarray) -> np.ndarray:
    if weight.dtype != Q8_0.dtype or weight.ndim != 2:
        raise ValueError(f"{weight.dtype} {weight.shape} is no matrix of q8_0 blocks")
    return weight
