"""Tensors as rows: how many elements they have, and as what loops over these read them.

A *row* is a tensor of f32 or bf16 as all of its elements, in order: of one token, most have but one
dimension longer than 1. Where the first such dimension is open, there are *several rows*, as many
as tokens or sequences, which have the elements of the others. Reshapes leave the elements in their
order, and transpositions that move none but dimensions of 1.
"""

from dataclasses import dataclass
from math import prod

from torch_mlir import ir
from torch_mlir.dialects import tensor
from torch_mlir.extras import types as T

from llmc.dialects.index_notation import Size, collapse, expand, size, slice_of, slice_of_rows
from llmc.pipelines.rewriting.extents import takes_whole
from llmc.pipelines.rewriting.operations import keeps_order, made_by

_OPEN = ir.ShapedType.get_dynamic_size()
_RESHAPES = ("tensor.collapse_shape", "tensor.expand_shape", "linalg.transpose")


@dataclass(frozen=True)
class RowForm:
    """A row of `length` elements, or several of them."""

    is_several: bool
    length: int

    @property
    def letters(self) -> str:
        """The loops over it, as `index_notation` has them: `t` over rows, `n` over elements."""
        return ("t" if self.is_several else "") + ("n" if self.length > 1 else "")


def form_of(type_: ir.Type) -> RowForm | None:
    """As what row, or rows, tensors of `type_` can be read, truths among them; None if as none."""
    if not isinstance(type_, ir.RankedTensorType):
        return None
    if type_.element_type not in (T.f32(), T.bf16(), T.bool()):
        return None
    long = [type_.shape[dim] for dim in long_dims(type_)]
    is_several = long[:1] == [_OPEN]
    extents = long[is_several:]
    return None if _OPEN in extents else RowForm(is_several, prod(extents))


def row_form(row: ir.Value) -> RowForm:
    """As `form_of`, of what is known to be a row; ValueError where it is none."""
    form = form_of(row.type)
    if form is None:
        raise ValueError(f"{row.type} is that of no row")
    return form


def is_of_truths(type_: ir.RankedTensorType) -> bool:
    """Whether tensors of `type_` hold i1."""
    return type_.element_type == T.bool()


def long_dims(type_: ir.RankedTensorType) -> list[int]:
    """The dimensions that are not known to be 1."""
    return [dim for dim, extent in enumerate(type_.shape) if extent != 1]


def as_loops(row: ir.Value) -> ir.Value:
    """A row as `[N]`, or `[]` where that is one element; several as `[T, N]` or `[T]`."""
    rank, letters = row.type.rank, row_form(row).letters
    if rank == len(letters):
        return row
    if letters != "tn":
        return collapse(row, [rank] if letters else [])
    first = list(row.type.shape).index(_OPEN) + 1
    return collapse(row, [first, rank - first])


def from_loops(loops: ir.Value, type_: ir.RankedTensorType) -> ir.Value:
    """What `as_loops` has made a row of, as of `type_`."""
    if loops.type == type_:
        return loops
    shape: list[Size] = list(type_.shape)
    if row_form(loops).letters != "tn":
        return expand(loops, [shape])
    first = shape.index(_OPEN) + 1
    return expand(loops, [[*shape[: first - 1], size(loops, 0)], shape[first:]])


def part_of_row(row: ir.Value) -> tuple[ir.Value, int]:
    """The row that `row` is cut from, and at which element; else itself, and 0.

    Of several rows it is cut at the same one.
    """
    slice_ = made_by(row, "tensor.extract_slice")
    if slice_ is None:
        return row, 0
    cut: tensor.ExtractSliceOp = slice_.opview
    source, starts = cut.source, list(cut.static_offsets)
    form = form_of(source.type)
    is_part = _OPEN not in starts and set(cut.static_strides) == {1}
    if form is None or not is_part or len(long_dims(source.type)) > len(form.letters):
        return row, 0
    if form.is_several and not _takes_all_rows(cut):
        return row, 0
    return under_reshapes(source), sum(starts)


def cut_row(loops: ir.Value, start: int, length: int) -> ir.Value:
    """`length` elements, from number `start` on, of a row as `as_loops` has it, or of each."""
    if row_form(loops).letters == "tn":
        return as_loops(slice_of_rows(loops, start, length))
    return slice_of(loops, [start], [length], [] if length == 1 else [length])


def _takes_all_rows(cut: tensor.ExtractSliceOp) -> bool:
    rank = cut.source.type.rank
    return cut.result.type.rank == rank and takes_whole(cut, range(rank - 1))


def under_reshapes(value: ir.Value) -> ir.Value:
    """What `value` is a reshape of, or of a reshape of it; else itself."""
    while is_reshape(value.owner):
        value = value.owner.operands[0]
    return value


def is_reshape(op: ir.Operation | ir.OpView | ir.Block) -> bool:
    """Whether `op` gives a row, or several, another shape."""
    if isinstance(op, ir.Block) or op.operation.name not in _RESHAPES:
        return False
    form = form_of(op.operands[0].type)
    if form is None or form != form_of(op.operation.results[0].type):
        return False
    return op.operation.name != "linalg.transpose" or keeps_order(op.opview)
