"""`arith.truncf` of a weight."""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from torch_mlir import ir

from llmc.pipelines.recipes.step import Step


@dataclass(frozen=True)
class Narrow(Step):
    """Each number rounded to the nearest float16; one that is too large becomes infinite."""

    operation: ClassVar[str] = "arith.truncf"

    @classmethod
    def match(cls, op: ir.OpView) -> Self | None:
        """To float16 alone: NumPy has no other type that is narrower."""
        is_f16 = isinstance(op.out.type.element_type, ir.F16Type)
        return cls() if is_f16 else None

    def compute(self, *weights: np.ndarray) -> np.ndarray:
        """The numbers, as float16."""
        (weight,) = weights
        with np.errstate(over="ignore"):
            return weight.astype(np.float16)
