"""Where the heads of tokens lie in the rows of a linear layer."""

from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import linalg, tensor

from llmc.dialects.index_notation import Size, collapse, size
from llmc.pipelines.kernels.token_heads import TokenHeads
from llmc.pipelines.rewriting.extents import takes_whole
from llmc.pipelines.rewriting.operations import made_by


@dataclass(frozen=True)
class HeadRows:
    """`value [B, N]` or `[B, T, N]`, and the channel from which on the heads follow each other.

    It is `stride` channels from one head to the next, or 0 where nothing lies between.
    """

    value: ir.Value
    offset: int
    stride: int = 0


def heads_of(rows: ir.Value, tokens: Size) -> ir.Value:
    """Heads `[B, H, T, E]` of `rows [B, T, H, E]`, T being `tokens`.

    The linear layer after attention wants the rows, and undoes the transposition.
    """
    _, _, heads, width = rows.type.shape
    room = tensor.empty([size(rows, 0), heads, tokens, width], rows.type.element_type)
    return linalg.transpose(rows, outs=[room], permutation=[0, 2, 1, 3]).results[0]


def rows_of_heads(*all_heads: ir.Value) -> list[HeadRows]:
    """The rows that each of several `heads [B, H, 1, D]` are cut from, all of one stride.

    What is not cut from such is a row of its own.
    """
    found = [_head_row(heads) for heads in all_heads]
    if len({row.stride for row in found}) == 1:
        return found
    return [
        _own_row(heads) if row.stride else row for heads, row in zip(all_heads, found, strict=True)
    ]


def _head_row(heads: ir.Value) -> HeadRows:
    """The row that `heads [B, H, 1, D]` are cut from, or they as a row of their own."""
    wide, within = _before_slice(heads)
    row = _row_before_cutting(wide)
    if row is None:
        return _own_row(heads)
    source, offset = _before_slice(row)
    stride = 0 if wide == heads else wide.type.shape[3]
    return HeadRows(collapse(source, [1, 2]), offset + within, stride)


def _own_row(heads: ir.Value) -> HeadRows:
    return HeadRows(collapse(heads, [1, 3]), 0)


def where_they_lie(heads: ir.Value, lanes: int) -> tuple[ir.Value, TokenHeads]:
    """What holds `heads [B, H, T, D]`: the rows that they are cut from, or they.

    A kernel reads them in vectors of `lanes` numbers at most.
    """
    batch, count, _, channels = heads.type.shape
    rows = _token_rows(heads)
    if rows is None:
        return heads, TokenHeads(batch, count, channels, None, lanes)
    return rows.value, TokenHeads(batch, count, channels, rows.offset, lanes)


def _token_rows(heads: ir.Value) -> HeadRows | None:
    """The rows `[B, T or more, N]` that `heads [B, H, T, D]` are cut from; None if from none."""
    rows = _row_before_cutting(heads)
    slice_ = rows and made_by(rows, "tensor.extract_slice")
    if not slice_:
        return rows and HeadRows(rows, 0)
    offset = last_offset(slice_.opview, 3)
    return HeadRows(rows, 0) if offset is None else HeadRows(slice_.opview.source, offset)


def _row_before_cutting(heads: ir.Value) -> ir.Value | None:
    """The row `[B, T, N]` of which `heads` are a reshape and a transpose."""
    transpose = made_by(heads, "linalg.transpose")
    if transpose is None or list(transpose.opview.permutation) != [0, 2, 1, 3]:
        return None
    cut = made_by(transpose.operands[0], "tensor.expand_shape")
    if cut is None:
        return None
    groups = [[dim.value for dim in group] for group in cut.opview.reassociation]
    return cut.operands[0] if groups == [[0], [1], [2, 3]] else None


def _before_slice(value: ir.Value) -> tuple[ir.Value, int]:
    """What `value` is the channels of from an offset on, for all of its rows or heads."""
    slice_ = made_by(value, "tensor.extract_slice")
    offset = last_offset(slice_.opview, value.type.rank) if slice_ else None
    if slice_ is None or offset is None:
        return value, 0
    cut: tensor.ExtractSliceOp = slice_.opview
    alike = cut.source.type.shape[1:-1] == value.type.shape[1:-1]
    return (cut.source, offset) if alike and takes_whole(cut, [0]) else (value, 0)


def last_offset(cut: tensor.ExtractSliceOp, rank: int) -> int | None:
    """Where `cut`, of a tensor of `rank`, begins in the last dimension, in all others at 0.

    None where it does not, or that is computed.
    """
    *first, offset = cut.static_offsets
    is_plain = len(first) + 1 == rank and not any(first) and set(cut.static_strides) == {1}
    return offset if is_plain and offset >= 0 else None
