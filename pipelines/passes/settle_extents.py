"""`settle-extents`: says of what is dispatched how large it is, by what it is made of."""

from dataclasses import dataclass
from functools import reduce
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import arith

from llmc.dialects.index_notation import as_value, kept_dims, mixed_numbers, size
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.dispatch_chain import DISPATCH, result_extents
from llmc.pipelines.rewriting.generics import measured
from llmc.pipelines.rewriting.operations import made_by
from llmc.pipelines.walks import find


@dataclass(frozen=True)
class SettleExtents(Pass):
    """Replaces `tensor.dim` of what a dispatch gives, or a view shows, by what it was told.

    What is left is of arguments and globals: the extents of all tensors of a layer are then known
    before its first dispatch.
    """

    name: ClassVar[str] = "settle-extents"

    def apply(self, module: ir.Module) -> None:
        """Rewrites what can be followed, from the first operation on."""
        for op in find(module.operation, "tensor.dim"):
            if of_value := measured(op):
                with ir.InsertionPoint(op), op.location:
                    extent = _extent(*of_value)
                if extent is not None:
                    op.results[0].replace_all_uses_with(extent)
                    op.erase()


def _extent(value: ir.Value, dim: int) -> ir.Value | None:
    """Extent `dim` of `value`, if that is made of something."""
    if not value.type.is_dynamic_dim(dim):
        return as_value(value.type.shape[dim])
    if op := made_by(value, DISPATCH):
        return result_extents(op)[value][sum(map(value.type.is_dynamic_dim, range(dim)))]
    if op := made_by(value, "tensor.expand_shape"):
        return as_value(mixed_numbers(op.opview.static_output_shape, op.opview.output_shape)[dim])
    if op := made_by(value, "tensor.extract_slice"):
        cut = op.opview
        return as_value(mixed_numbers(cut.static_sizes, cut.sizes)[kept_dims(cut)[dim]])
    if op := made_by(value, "tensor.cast"):
        return _under(op.operands[0], dim)
    if op := made_by(value, "linalg.transpose"):
        return _under(op.operands[0], ir.DenseI64ArrayAttr(op.attributes["permutation"])[dim])
    if op := made_by(value, "tensor.collapse_shape"):
        source = op.operands[0]
        group = [each.value for each in op.opview.reassociation[dim]]
        merged = [each for each in group if source.type.shape[each] != 1] or group[:1]
        return reduce(arith.muli, (_under(source, each) for each in merged))
    return None


def _under(value: ir.Value, dim: int) -> ir.Value:
    """Extent `dim` of `value`, whatever makes it."""
    extent = _extent(value, dim)
    return as_value(size(value, dim)) if extent is None else extent
