"""Which extents are seen to be the same, however they are computed."""

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from torch_mlir import ir
from torch_mlir.dialects import tensor

from llmc.dialects.dimensions import dimensions
from llmc.dialects.index_notation import Size, mixed_numbers
from llmc.pipelines.rewriting.generics import integer_constant, maps, measured
from llmc.pipelines.rewriting.operations import made_by

_Extent: TypeAlias = "Size | tuple[ir.Value, int]"
"""A number, known or computed, or that of a dimension of a tensor."""


def is_extent(extent: Size, value: ir.Value, dim: int) -> bool:
    """Whether `extent` is seen to be that of dimension `dim` of `value`."""
    return _are_same(extent, (value, dim))


def is_length(extent: Size, value: ir.Value, dim: int) -> bool:
    """Whether `extent` is that of dimension `dim` of `value`, or any open extent of a tensor is.

    In a function that was traced of a model one number alone is open, that of tokens or sequences,
    which different arguments have: that they are as long is not seen.
    """
    is_open = value.type.is_dynamic_dim(dim) and not isinstance(extent, int)
    return is_extent(extent, value, dim) or (is_open and made_by(extent, "tensor.dim") is not None)


def takes_whole(cut: tensor.ExtractSliceOp | tensor.InsertSliceOp, dims: Iterable[int]) -> bool:
    """Whether a slice of its source's rank has all that this has in `dims`; see `is_length`.

    Or one that is inserted, of its destination's.
    """
    whole = cut.dest if isinstance(cut, tensor.InsertSliceOp) else cut.source
    extents, offsets = mixed_numbers(cut.static_sizes, cut.sizes), cut.static_offsets
    return all(offsets[dim] == 0 and is_length(extents[dim], whole, dim) for dim in dims)


def _are_same(first: _Extent, second: _Extent) -> bool:
    return not set(_names(first)).isdisjoint(_names(second))


def _names(extent: _Extent) -> list[_Extent]:
    """All that is seen to be the same number as `extent`, itself included."""
    found = [extent]
    for each in found:  # which grows
        found += [name for name in _other_names(each) if name not in found]
    return found


def _other_names(extent: _Extent) -> Iterator[_Extent]:
    if isinstance(extent, int):
        return
    if isinstance(extent, ir.Value):
        yield from _names_of_number(extent)
        return
    value, dim = extent
    if not value.type.is_dynamic_dim(dim):
        yield value.type.shape[dim]
    elif not isinstance(value.owner, ir.Block):
        yield from _names_of_result(value, dim)


def _names_of_number(number: ir.Value) -> Iterator[_Extent]:
    constant = integer_constant(number)
    if constant is not None:
        yield constant
    read = made_by(number, "tensor.dim")
    of_value = read and measured(read)
    if of_value:
        yield of_value


def _names_of_result(value: ir.Value, dim: int) -> Iterator[_Extent]:
    op = value.owner.opview
    match op.operation.name:
        case "linalg.transpose":
            yield op.input, op.permutation[dim]
        case "tensor.cast" if isinstance(op.source.type, ir.RankedTensorType):
            yield op.source, dim
        case "tensor.empty":
            yield mixed_numbers(value.type.shape, op.dynamicSizes)[dim]
        case "tensor.expand_shape":
            yield mixed_numbers(op.static_output_shape, op.output_shape)[dim]
        case "tensor.extract_slice" if op.source.type.rank == value.type.rank:
            yield mixed_numbers(op.static_sizes, op.sizes)[dim]
        case "linalg.generic":
            yield from _names_of_loop(op.operation, ir.OpResult(value).result_number, dim)
        case name if name.startswith("llmc."):
            yield from _names_of_letter(op, ir.OpResult(value).result_number, dim)


def _names_of_loop(op: ir.Operation, result: int, dim: int) -> Iterator[_Extent]:
    """The extents of a linalg.generic's operands that the loop over the result's dimension has."""
    places = [
        (operand, list(map_.results)) for operand, map_ in zip(op.operands, maps(op), strict=True)
    ]
    _, own = places[len(places) - len(op.results) + result]
    if not isinstance(own[dim], ir.AffineDimExpr):
        return
    for operand, loops in places:
        yield from ((operand, at) for at, loop in enumerate(loops) if loop == own[dim])


def _names_of_letter(op: ir.OpView, result: int, dim: int) -> Iterator[_Extent]:
    """The extents of operands that an operation of llmc's requires to be the result's."""
    operands, results = dimensions(op)
    for letter in results[result][dim : dim + 1] if results else "":
        for operand, letters in zip(op.operands, operands, strict=False):
            yield from ((operand, at) for at, own in enumerate(letters) if own == letter != ".")
