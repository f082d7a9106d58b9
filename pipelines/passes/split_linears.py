"""`split-linears`: takes apart linear layers whose outputs are used in parts."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import tensor

from llmc.dialects import ExpertLinearOp, LinearOp
from llmc.dialects.index_notation import slice_of
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.recipes.recipe import recipe_of
from llmc.pipelines.walks import find


@dataclass(frozen=True)
class SplitLinears(Pass):
    """Turns a slice of a linear layer's outputs into a linear layer of a slice of its weight.

    Each part can then be split among ranks by itself: queries, keys and values that a model
    computes at once, or gates and inputs of an MLP.
    """

    name: ClassVar[str] = "split-linears"

    def apply(self, module: ir.Module) -> None:
        """Rewrites every slice of outputs."""
        for op in find(module.operation, "tensor.extract_slice"):
            _split(op.opview)
        for op in find(module.operation, "tensor.dim"):
            _measure_rows(op.opview)


def _split(slice_: tensor.ExtractSliceOp) -> None:
    source = slice_.source.owner
    linear = None if isinstance(source, ir.Block) else source.opview
    if not isinstance(linear, LinearOp | ExpertLinearOp) or recipe_of(linear.weight) is None:
        return
    part = _outputs(slice_)
    if part is None:
        return
    offset, count = part
    shape = linear.weight.type.shape
    dim = len(shape) - (1 if linear.transposed.value else 2)
    offsets, extents = [0] * len(shape), list(shape)
    offsets[dim], extents[dim] = offset, count
    type_ = slice_.result.type
    with ir.InsertionPoint(linear.operation), slice_.location:
        weight = slice_of(linear.weight, offsets, extents, extents)
        if isinstance(linear, ExpertLinearOp):
            new = ExpertLinearOp(
                linear.x, linear.expert, weight, linear.top_k, linear.transposed, type_
            )
        else:
            bias = linear.bias and slice_of(linear.bias, [offset], [count], [count])
            new = LinearOp(linear.x, weight, linear.transposed, type_, bias=bias)
    slice_.result.replace_all_uses_with(new.out)
    slice_.operation.erase()


def _measure_rows(dim: tensor.DimOp) -> None:
    """Asks what the layer reads for its rows, so that a layer that is taken apart can go."""
    source = dim.source.owner
    linear = None if isinstance(source, ir.Block) else source.opview
    with ir.InsertionPoint(dim), dim.location:
        if isinstance(linear, LinearOp):
            rows = tensor.DimOp(linear.x, dim.index).result
        elif isinstance(linear, ExpertLinearOp):
            rows = tensor.DimOp(linear.expert, dim.index).result
        else:
            return
    dim.result.replace_all_uses_with(rows)
    dim.operation.erase()


def _outputs(slice_: tensor.ExtractSliceOp) -> tuple[int, int] | None:
    """The first output that is taken, and how many; None where other dimensions are cut too."""
    shape = slice_.source.type.shape
    sizes, offsets = list(slice_.static_sizes), list(slice_.static_offsets)
    # An open extent is the model's only one: that of its tokens, or of its batch.
    dims = [not isinstance(each.owner, ir.Block) and each.owner.name for each in slice_.sizes]
    is_whole = len(slice_.result.type.shape) == len(shape) and all(
        offset == 0 and (size == extent or (size < 0 and set(dims) == {"tensor.dim"}))
        for offset, size, extent in zip(offsets[:-1], sizes[:-1], shape[:-1], strict=True)
    )
    is_plain = all(stride == 1 for stride in slice_.static_strides)
    is_known = offsets[-1] >= 0 and sizes[-1] >= 0
    return (offsets[-1], sizes[-1]) if is_whole and is_plain and is_known else None
