"""`tensor.extract_slice` of a weight."""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from torch_mlir import ir

from llmc.dialects.block_types import block_format
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
        if block_format(op.source.type):  # whose sizes count blocks, and not values
            return None
        offsets, sizes = tuple(op.static_offsets), tuple(op.static_sizes)
        is_static = len(op.operands) == 1
        is_dense = all(stride == 1 for stride in op.static_strides)
        is_of_rank = op.source.type.rank == op.result.type.rank
        return cls(offsets, sizes) if is_static and is_dense and is_of_rank else None

    def within(self, shape: tuple[int, ...], together: int = 1) -> tuple[slice, ...]:
        """The part as an index of an array of this shape, a last element being some `together`.

        Raises ValueError, IndexError where it has no such part.
        """
        if not len(self.offsets) == len(self.sizes) == len(shape):
            raise ValueError(f"a slice of {len(self.offsets)} dimensions, of {len(shape)}")
        units = [*[1] * (len(shape) - 1), together]
        begins, sizes = (
            [number // unit for number, unit in zip(numbers, units, strict=True)]
            for numbers in (self.offsets, self.sizes)
        )
        ends = [begin + size for begin, size in zip(begins, sizes, strict=True)]
        edges = zip(begins, ends, shape, strict=True)
        if any(not 0 <= begin <= end <= extent for begin, end, extent in edges):
            raise IndexError(f"a slice from {begins} to {ends} of {shape}")
        return tuple(slice(*edges) for edges in zip(begins, ends, strict=True))

    def compute(self, *weights: np.ndarray) -> np.ndarray:
        """The part."""
        (weight,) = weights
        format_ = format_of(weight)
        if format_ is None:
            return weight[self.within(weight.shape)]
        if any(numbers[-1] % format_.values for numbers in (self.offsets, self.sizes) if numbers):
            weight = decode(weight)
            return weight[self.within(weight.shape)]
        return weight[self.within(weight.shape, format_.values)]
