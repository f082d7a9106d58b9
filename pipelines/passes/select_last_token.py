"""`select-last-token`: computes what follows the layers for the token whose logits are wanted."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import tensor

from llmc.dialects.index_notation import Size, as_value, mixed_numbers, size, sizes, slice_of
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.generics import measured
from llmc.pipelines.rewriting.operations import is_used
from llmc.pipelines.rewriting.row_reads import Reads, reads_of
from llmc.pipelines.walks import find


@dataclass(frozen=True)
class SelectLastToken(Pass):
    """Moves the selection of one row before the operations whose rows do not depend on each other.

    A selection is a `tensor.extract_slice` of one row of a dimension and of all the others. It
    moves before linear layers, norms, linalg.generic, transposition, casts and merged dimensions
    where nothing but it (and its like) uses their result, until it meets what mixes rows:
    attention, or a call.
    """

    name: ClassVar[str] = "select-last-token"

    def apply(self, module: ir.Module) -> None:
        """Moves every selection as far as it goes."""
        while any(_move(op.opview) for op in find(module.operation, "tensor.extract_slice")):
            continue


@dataclass(frozen=True)
class _Row:
    """The row at `offset` of dimension `dim`."""

    dim: int
    offset: Size


def _move(slice_: tensor.ExtractSliceOp) -> bool:
    """Moves a selection, and its like, before what they select from; whether that was possible."""
    row = _selected(slice_)
    if row is None or isinstance(slice_.source.owner, ir.Block):
        return False
    producer = slice_.source.owner.operation
    slices = _only_slices(producer, row)
    reads = reads_of(producer, row.dim)
    if not slices or not reads:
        return False
    with ir.InsertionPoint(slice_), slice_.location:  # It is the first one.
        values = _compute_row(producer, row, reads)
    for old in slices:
        new = values[ir.OpResult(old.source).result_number]
        with ir.InsertionPoint(old), old.location:
            if new.type != old.result.type:
                new = slice_of(new, [0] * new.type.rank, sizes(new), old.result.type.shape)
        old.result.replace_all_uses_with(new)
        old.operation.erase()
    _retire(producer)
    return True


def _selected(slice_: tensor.ExtractSliceOp) -> _Row | None:
    """What the slice selects, if it is one of several rows and all of each."""
    shape, extents = slice_.source.type.shape, list(slice_.static_sizes)
    parts = [dim for dim, extent in enumerate(extents) if not 0 <= extent == shape[dim]]
    if len(parts) != 1 or extents[parts[0]] != 1 or any(s != 1 for s in slice_.static_strides):
        return None
    offsets = mixed_numbers(slice_.static_offsets, slice_.offsets)
    return _Row(parts[0], offsets[parts[0]])


def _only_slices(producer: ir.Operation, row: _Row) -> list[tensor.ExtractSliceOp]:
    """The selections of `row` of `producer`'s results, where but for sizes nothing else is used."""
    users = [use.owner for result in producer.results for use in result.uses]
    slices = [user for user in users if not isinstance(user, tensor.DimOp)]
    are_alike = all(
        isinstance(user, tensor.ExtractSliceOp)
        and _selected(user) == row
        and user.operation.block == producer.block
        for user in slices
    )
    return slices if are_alike else []


def _compute_row(producer: ir.Operation, row: _Row, reads: Reads) -> list[ir.Value]:
    """The results of `producer` on one row of what it reads."""
    operands = list(producer.operands)
    rows = {
        (value, dim): _one_row(value, row.offset, dim)
        for value, dim in dict.fromkeys((operands[number], dim) for number, dim in reads)
    }
    for number, dim in reads:
        operands[number] = rows[operands[number], dim]
    new = producer.clone()
    for number, operand in enumerate(operands):
        new.operands[number] = operand
    for result in new.results:
        shape = list(result.type.shape)
        shape[row.dim] = 1
        result.set_type(ir.RankedTensorType.get(shape, result.type.element_type))
    return list(new.results)


def _one_row(value: ir.Value, offset: Size, dim: int) -> ir.Value:
    offsets: list[Size] = [0] * value.type.rank
    offsets[dim] = offset
    extents = [1 if d == dim else size(value, d) for d in range(value.type.rank)]
    if isinstance(value.owner, tensor.EmptyOp):
        return tensor.empty(extents, value.type.element_type)
    return slice_of(value, offsets, extents, extents)


def _retire(producer: ir.Operation) -> None:
    """Erases an operation of which no more than sizes is asked, which its operands can tell."""
    for use in [use.owner for result in producer.results for use in result.uses]:
        for number, dim in _size_reads(producer, use)[:1]:
            with ir.InsertionPoint(use), use.location:
                use.result.replace_all_uses_with(as_value(size(producer.operands[number], dim)))
            use.operation.erase()
    if not is_used(producer):
        producer.erase()


def _size_reads(producer: ir.Operation, use: ir.OpView) -> Reads:
    """Which dimensions of operands are as large as that of the result for which `use` asks."""
    of_result = measured(use.operation)
    return reads_of(producer, of_result[1]) if of_result else []
