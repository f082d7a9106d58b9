"""Where the heads of tokens lie in the rows of a linear layer."""

from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import tensor

from llmc.dialects.index_notation import collapse


@dataclass(frozen=True)
class HeadRows:
    """`value [B, N]` or `[B, T, N]`, and the channel from which on the heads follow each other."""

    value: ir.Value
    offset: int


def made_by(value: ir.Value, name: str) -> ir.Operation | None:
    """The operation that makes `value`, if it is called `name`."""
    owner = value.owner
    is_it = not isinstance(owner, ir.Block) and owner.operation.name == name
    return owner.operation if is_it else None


def head_rows(heads: ir.Value) -> HeadRows:
    """The row that `heads [B, H, 1, D]` are cut from, or they as a row of their own."""
    row = _row_before_cutting(heads)
    if row is None:
        return HeadRows(collapse(heads, [1, 3]), 0)
    source, offset = _before_slice(row)
    return HeadRows(collapse(source, [1, 2]), offset)


def token_rows(heads: ir.Value) -> HeadRows | None:
    """The rows `[B, T or more, N]` that `heads [B, H, T, D]` are cut from; None if from none."""
    rows = _row_before_cutting(heads)
    slice_ = rows and made_by(rows, "tensor.extract_slice")
    if not slice_:
        return rows and HeadRows(rows, 0)
    cut: tensor.ExtractSliceOp = slice_.opview
    *first, offset = cut.static_offsets
    is_part = cut.source.type.rank == 3 and first == [0, 0] and list(cut.static_strides) == [1] * 3
    if not is_part or offset == ir.ShapedType.get_dynamic_size():
        return HeadRows(rows, 0)
    return HeadRows(cut.source, offset)


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


def _before_slice(row: ir.Value) -> tuple[ir.Value, int]:
    """A row `[B, 1, M]` of which `row [B, 1, N]` are the channels from an offset on."""
    slice_ = made_by(row, "tensor.extract_slice")
    if slice_ is None:
        return row, 0
    cut: tensor.ExtractSliceOp = slice_.opview
    source, unknown = cut.source, ir.ShapedType.get_dynamic_size()
    first, token, offset = cut.static_offsets
    ranks_match = source.type.rank == row.type.rank and list(cut.static_strides) == [1, 1, 1]
    whole = _is_whole_batch(cut)
    if not ranks_match or not whole or (first, token) != (0, 0) or offset == unknown:
        return row, 0
    return source, offset


def _is_whole_batch(cut: tensor.ExtractSliceOp) -> bool:
    """Whether all of the source's first dimension is taken."""
    extent, available = cut.static_sizes[0], cut.source.type.shape[0]
    if extent != ir.ShapedType.get_dynamic_size():
        return bool(extent == available)
    dim = made_by(cut.sizes[0], "tensor.dim")
    return dim is not None and dim.operands[0] == cut.source
