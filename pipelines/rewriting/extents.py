"""What is seen of extents that are computed."""

from torch_mlir import ir

from llmc.dialects.index_notation import Size, mixed_numbers
from llmc.pipelines.rewriting.generics import is_constant
from llmc.pipelines.rewriting.operations import made_by


def is_extent(extent: Size, value: ir.Value, dim: int) -> bool:
    """Whether `extent` is seen to be that of dimension `dim` of `value`."""
    if isinstance(extent, int):
        return bool(extent == value.type.shape[dim])
    read = made_by(extent, "tensor.dim")
    if read and read.operands[0] == value and is_constant(read.operands[1]):
        return bool(read.operands[1].owner.opview.literal_value == dim)
    if transposition := made_by(value, "linalg.transpose"):
        return is_extent(extent, transposition.operands[0], transposition.opview.permutation[dim])
    if split := made_by(value, "tensor.expand_shape"):
        shape = mixed_numbers(split.opview.static_output_shape, split.opview.output_shape)
        return bool(shape[dim] == extent)
    return False
