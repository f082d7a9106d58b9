"""Reshapes whose types prove how they merge dimensions and split them."""

from itertools import product
from math import prod

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from llmc.dialects.index_notation import Size, as_value, collapse, expand, index, size

RESHAPES = ("tensor.collapse_shape", "tensor.expand_shape")
"""What merges neighbouring dimensions, or splits one."""

_Extents = list[int | None]  # None: dynamic


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
    groups = _groups(before, after)
    if not groups:
        return False
    merged, split = (list(counts) for counts in zip(*groups, strict=True))
    with ir.InsertionPoint(reshape), reshape.location:
        new = collapse(source, merged) if len(merged) < len(before) else source
        if len(split) < len(after):
            new = expand(new, _split(new, after, split))
        if new.type != old:
            new = tensor.cast(old, new)
    reshape.result.replace_all_uses_with(new)
    reshape.operation.erase()
    return True


def _extents(type_: ir.RankedTensorType) -> _Extents:
    return [None if type_.is_dynamic_dim(d) else type_.get_dim_size(d) for d in range(type_.rank)]


def _groups(before: _Extents, after: _Extents) -> list[tuple[int, int]] | None:
    """How many neighbours of the one shape are as many of the other, group by group, the smallest.

    None where there are no such groups. What has a dynamic extent is the same as what has one: as
    many elements are on both sides, so that what the rest of the shape leaves for them is the same.
    """
    if not before or not after:
        return None if before or after else []
    for count, others in product(range(1, len(before) + 1), range(1, len(after) + 1)):
        if _product(before[:count]) == _product(after[:others]):
            rest = _groups(before[count:], after[others:])
            if rest is not None:
                return [(count, others), *rest]
    return None


def _product(extents: _Extents) -> int | None:
    return None if None in extents else _product_of_static(extents)


def _product_of_static(extents: _Extents) -> int:
    return prod(extent for extent in extents if extent is not None)


def _split(source: ir.Value, after: _Extents, counts: list[int]) -> list[list[Size]]:
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
