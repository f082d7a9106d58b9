"""`simplify-reshapes`: makes reshapes, and slices of all, what can be read from their types."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import tensor

from llmc.dialects.index_notation import mixed_numbers
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.extents import is_extent
from llmc.pipelines.rewriting.reshapes import simplify_reshape
from llmc.pipelines.walks import find


@dataclass(frozen=True)
class SimplifyReshapes(Pass):
    """Turns `tensor.reshape` into `tensor.collapse_shape`, `tensor.expand_shape`, or both.

    Only where the types prove it: at most one dimension on either side is dynamic, and neighbours
    in the one shape have the product of neighbours in the other. What computed the shape is left to
    canonicalisation. A `tensor.extract_slice` of all that there is goes, even where an
    extent is dynamic.
    """

    name: ClassVar[str] = "simplify-reshapes"

    def apply(self, module: ir.Module) -> None:
        """Rewrites every reshape and slice that can be proved."""
        for op in find(module.operation, "tensor.reshape"):
            simplify_reshape(op.opview)
        for op in find(module.operation, "tensor.extract_slice"):
            if _takes_all(op.opview):
                op.results[0].replace_all_uses_with(op.operands[0])
                op.erase()


def _takes_all(slice_: tensor.ExtractSliceOp) -> bool:
    """Whether a slice is its source, from the first element on and with the same extents."""
    source, extents = slice_.source, mixed_numbers(slice_.static_sizes, slice_.sizes)
    return (
        slice_.result.type == source.type
        and not any(slice_.static_offsets)
        and all(stride == 1 for stride in slice_.static_strides)
        and all(is_extent(extent, source, dim) for dim, extent in enumerate(extents))
    )
