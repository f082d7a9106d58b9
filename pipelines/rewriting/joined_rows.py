"""Heads of several sequences that follow each other as the rows of one.

What is done row by row needs to know of one sequence only. Attention, and the KV cache, want the
sequences apart: those are reshapes and a transposition, which their kernels see through.
"""

from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith, linalg, tensor

from llmc.dialects.index_notation import Size, as_value, collapse, expand, size
from llmc.pipelines.rewriting.operations import made_by
from llmc.pipelines.rewriting.reshapes import RESHAPES

_SWAP = [1, 0, 2, 3]


@dataclass(frozen=True)
class Lengths:
    """`rows` of so many `sequences`, B, are T for `each`: B * T."""

    rows: Size
    sequences: Size
    each: Size

    @classmethod
    def of(cls, rows: Size, sequences: Size) -> "Lengths":
        """`rows` in all, as many for each of `sequences`."""
        return cls(rows, sequences, arith.divui(as_value(rows), as_value(sequences)))


def split_rows(heads: ir.Value, lengths: Lengths) -> ir.Value:
    """`[1, H, B * T, D]` as `[B, H, T, D]`."""
    _, count, _, width = heads.type.shape
    apart = [[count], [lengths.sequences, lengths.each], [width]]
    shape = [lengths.sequences, count, lengths.each, width]
    return _swapped(expand(collapse(heads, [2, 1, 1]), apart), shape)


def join_rows(heads: ir.Value, lengths: Lengths) -> ir.Value:
    """`[B, H, T, E]` as `[1, H, B * T, E]`."""
    _, count, _, width = heads.type.shape
    shape = [count, lengths.sequences, lengths.each, width]
    return expand(
        collapse(_swapped(heads, shape), [1, 2, 1]), [[1, count], [lengths.rows], [width]]
    )


def before_split(heads: ir.Value) -> ir.Value | None:
    """The `[1, H, B * T, D]` that `split_rows` made `heads` of; None where it did not."""
    transpose = made_by(heads, "linalg.transpose")
    if transpose is None or list(transpose.opview.permutation) != _SWAP:
        return None
    _, count, _, width = heads.type.shape
    value = transpose.operands[0]
    while not _is_joined(value, count, width):
        reshape = made_by(value, *RESHAPES)
        if reshape is None:
            return None
        value = reshape.operands[0]
    return value


def lengths_of(split: ir.Value, joined: ir.Value) -> Lengths:
    """What `split` was made with of `joined`, as the room says that was made for it.

    So nobody reads `split` itself, of which a kernel may make nothing.
    """
    room = split.owner.operands[1]
    return Lengths(size(joined, 2), size(room, 0), size(room, 2))


def after_join(heads: ir.Value) -> ir.Value | None:
    """What `join_rows` makes of `heads [B, H, T, E]`, where nothing else reads them; else None."""
    _, count, _, width = heads.type.shape
    reader = _only_reader(heads)
    if reader is None or reader.name != "linalg.transpose" or reader.operands[0] != heads:
        return None
    if list(reader.opview.permutation) != _SWAP:
        return None
    value = reader.results[0]
    while not _is_joined(value, count, width):
        reader = _only_reader(value)
        if reader is None or reader.name not in RESHAPES:
            return None
        value = reader.results[0]
    return value


def _swapped(heads: ir.Value, shape: list[Size]) -> ir.Value:
    """`heads` with the first two dimensions swapped, which then are of `shape`."""
    room = tensor.empty(shape, heads.type.element_type)
    return linalg.transpose(heads, outs=[room], permutation=_SWAP).results[0]


def _is_joined(value: ir.Value, heads: int, width: int) -> bool:
    shape = list(value.type.shape)
    return len(shape) == len(_SWAP) and [*shape[:2], shape[3]] == [1, heads, width]


def _only_reader(value: ir.Value) -> ir.Operation | None:
    """Who reads `value`, and not only how long it is, if that is one operation."""
    readers = [use.owner.operation for use in value.uses if use.owner.name != "tensor.dim"]
    return readers[0] if len(readers) == 1 else None
