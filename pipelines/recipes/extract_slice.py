"""`tensor.extract_slice` of a weight."""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from torch_mlir import ir

from llmc.dialects.blocks import decode, format_of
from llmc.pipelines.recipes.step import Step


@dataclass(frozen=True)
class ExtractSlice(Step):
    """The part of the operand at `offsets` of `sizes`: blocks where these are whole ones."""

    operation: ClassVar[str] = "tensor.extract_slice"
    reads_blocks: ClassVar[bool] = True
    offsets: tuple[int, ...]
    sizes: tuple[int, ...]

    @classmethod
    def match(cls, op: ir.OpView) -> Self | None:
        """A part that is known, of neighbours, is such a step."""
        offsets, sizes = tuple(op.static_offsets), tuple(op.static_sizes)
        is_static = len(op.operands) == 1 and min(*offsets, *sizes, 0) == 0
        is_dense = all(stride == 1 for stride in op.static_strides)
        is_of_rank = op.source.type.rank == op.result.type.rank
        return cls(offsets, sizes) if is_static and is_dense and is_of_rank else None

    @property
    def part(self) -> tuple[slice, ...]:
        """The part as an index of an array of numbers."""
        pairs = zip(self.offsets, self.sizes, strict=True)
        return tuple(slice(offset, offset + size) for offset, size in pairs)

    def compute(self, *weights: np.ndarray) -> np.ndarray:
        """The part."""
        (weight,) = weights
        if len(self.offsets) != weight.ndim or len(self.sizes) != weight.ndim:
            raise ValueError(f"a slice of {len(self.offsets)} dimensions, of {weight.ndim}")
        offsets, sizes = list(self.offsets), list(self.sizes)
        if format_ := format_of(weight):
            if offsets[-1] % format_.values or sizes[-1] % format_.values:
                weight = decode(weight)
            else:
                offsets[-1] //= format_.values
                sizes[-1] //= format_.values
        ends = [offset + size for offset, size in zip(offsets, sizes, strict=True)]
        if any(end > extent for end, extent in zip(ends, weight.shape, strict=True)):
            raise IndexError(f"a slice up to {ends} of {weight.shape}")
        return weight[tuple(slice(*edges) for edges in zip(offsets, ends, strict=True))]
