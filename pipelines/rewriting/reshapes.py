"""Reshapes whose types prove that they merge dimensions or split them."""

from math import prod

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from llmc.dialects.index_notation import Size, as_value, collapse, expand, index, size

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


def _extents(type_: ir.RankedTensorType) -> _Extents:
    return [None if type_.is_dynamic_dim(d) else type_.get_dim_size(d) for d in range(type_.rank)]


def _groups(fine: _Extents, coarse: _Extents) -> list[int]:
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
