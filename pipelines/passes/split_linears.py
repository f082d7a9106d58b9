"""`split-linears`: takes apart linear layers whose outputs are used in parts."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import tensor

from llmc.dialects import ExpertLinearOp, LinearOp
from llmc.dialects.index_notation import slice_of
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.recipes.recipe import recipe_of
from llmc.pipelines.rewriting.extents import takes_whole
from llmc.pipelines.rewriting.linear_prologue import read_lengths_before
from llmc.pipelines.walks import find

_LAYERS = {"llmc.linear": 0, "llmc.expert_linear": 1}
"""Linear layers, and the operand that has as many rows as their result."""


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
        # So that a layer that is taken apart can go. Lengths go from the last layer to the first.
        for op in reversed(find(module.operation, *_LAYERS)):
            read_lengths_before(op, _LAYERS[op.name])


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


def _outputs(slice_: tensor.ExtractSliceOp) -> tuple[int, int] | None:
    """The first output that is taken, and how many; None where other dimensions are cut too."""
    rank = slice_.source.type.rank
    offset, count = slice_.static_offsets[rank - 1], slice_.static_sizes[rank - 1]
    is_plain = slice_.result.type.rank == rank and set(slice_.static_strides) == {1}
    is_known = offset >= 0 and count >= 0
    is_whole = is_plain and is_known and takes_whole(slice_, range(rank - 1))
    return (offset, count) if is_whole else None
