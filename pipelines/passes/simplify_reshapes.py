"""`simplify-reshapes`: makes reshapes, and slices of all, what can be read from their types."""

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from llmc.dialects.index_notation import (
    Size,
    as_value,
    collapse,
    expand,
    index,
    mixed_numbers,
    size,
)
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.passes.extents import is_extent
from llmc.pipelines.walks import find

Extents = list[int | None]  # None: dynamic


@dataclass(frozen=True)
class SimplifyReshapes(Pass):
    """Turns `tensor.reshape` into `tensor.expand_shape` or `tensor.collapse_shape`.

    Only where the types prove it: at most one dimension on either side is dynamic, and each
    dimension of the one shape is the product of neighbours in the other. What computed the shape
    is left to canonicalisation. A `tensor.extract_slice` of all that there is goes, even where an
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


def simplify_reshape(reshape: tensor.ReshapeOp) -> bool:
    """Replaces one reshape, if its types prove what it does; whether they did."""
    source, old = reshape.source, reshape.result.type
    if not all(isinstance(type_, ir.RankedTensorType) for type_ in (source.type, old)):
        return False
    before, after = _extents(source.type), _extents(old)
    if 0 in before + after or before.count(None) > 1 or after.count(None) > 1:
        return False
    total = _product(before)
    if total and None in after:
        after[after.index(None)] = total // _product_of_static(after)
    merged, split = _groups(before, after), _groups(after, before)
    if not merged and not split:
        return False
    with ir.InsertionPoint(reshape), reshape.location:
        new = collapse(source, merged) if merged else expand(source, _split(source, after, split))
        if new.type != old:
            new = tensor.cast(old, new)
    reshape.result.replace_all_uses_with(new)
    reshape.operation.erase()
    return True


def _takes_all(slice_: tensor.ExtractSliceOp) -> bool:
    """Whether a slice is its source, from the first element on and with the same extents."""
    source, extents = slice_.source, mixed_numbers(slice_.static_sizes, slice_.sizes)
    return (
        slice_.result.type == source.type
        and not any(slice_.static_offsets)
        and all(stride == 1 for stride in slice_.static_strides)
        and all(is_extent(extent, source, dim) for dim, extent in enumerate(extents))
    )


def _extents(type_: ir.RankedTensorType) -> Extents:
    return [None if type_.is_dynamic_dim(d) else type_.get_dim_size(d) for d in range(type_.rank)]


def _groups(fine: Extents, coarse: Extents) -> list[int]:
    """How many neighbours in `fine` make up each dimension of `coarse`; empty where they do not.

    A dynamic dimension is made up of the dynamic one and any others: as many elements are on both
    sides, so that what the rest of the shape leaves for them is the same.
    """
    if len(coarse) <= 1:
        return [len(fine)] if fine and [_product(fine)] == coarse else []
    for count in range(1, len(fine) - len(coarse) + 2):
        if _product(fine[:count]) == coarse[0] and (rest := _groups(fine[count:], coarse[1:])):
            return [count, *rest]
    return []


def _product(extents: Extents) -> int | None:
    return None if None in extents else _product_of_static(extents)


def _product_of_static(extents: Extents) -> int:
    return prod(extent for extent in extents if extent is not None)


def _split(source: ir.Value, after: Extents, counts: list[int]) -> list[list[Size]]:
    """The extents that each dimension of `source` is split into, the dynamic one computed."""
    groups, at = [], 0
    for dim, count in enumerate(counts):
        group = after[at : at + count]
        rest = _product_of_static(group)
        groups.append(
            [_divided(size(source, dim), rest) if extent is None else extent for extent in group]
        )
        at += count
    return groups


def _divided(extent: Size, by: int) -> Size:
    return extent if by == 1 else arith.divui(as_value(extent), index(by))
