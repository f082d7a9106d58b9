"""`tensor.concat` of weights."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from torch_mlir import ir

from llmc.dialects.blocks import decode
from llmc.pipelines.recipes.step import Step


@dataclass(frozen=True)
class Concat(Step):
    """The operands one after another along dimension `dim`: blocks where all are, of one format."""

    operation: ClassVar[str] = "tensor.concat"
    operands: ClassVar[int | None] = None
    reads_blocks: ClassVar[bool] = True
    dim: int

    @classmethod
    def match(cls, op: ir.OpView) -> Self | None:
        """Any concatenation is such a step."""
        return cls(op.dim.value)

    def compute(self, *weights: np.ndarray) -> np.ndarray:
        """The concatenation."""
        alike = len({weight.dtype for weight in weights}) == 1
        return np.concatenate(weights if alike else [*map(decode, weights)], self.dim)

    def name(self, names: Sequence[str]) -> str:
        """The names joined where they differ: `a.q.weight` and `a.k.weight` as `a.q_k.weight`."""
        parts = [name.split(".") for name in names]
        if len({len(part) for part in parts}) > 1:
            return "_".join(dict.fromkeys(names))
        return ".".join("_".join(dict.fromkeys(column)) for column in zip(*parts, strict=True))
