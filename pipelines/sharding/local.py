"""What an operation is on one rank, whose operands are parts."""

from collections.abc import Sequence
from itertools import chain

from torch_mlir import ir
from torch_mlir.dialects import arith

from llmc.dialects import (
    AttentionOp,
    CacheAppendOp,
    CacheReadOp,
    EmbeddingOp,
    ExpertLinearOp,
    LinearOp,
)
from llmc.dialects.index_notation import constant, letters, pointwise
from llmc.pipelines.sharding.collectives import add_up
from llmc.pipelines.sharding.columns import append_part, attend_to_part, read_part
from llmc.pipelines.sharding.rules import Assignment, Splits
from llmc.pipelines.sharding.split import Dealt, Range, Split, local_type

ROWS = "llmc.rows"
"""On what keeps a rank's rows and makes the others zeros: an axis of the grid, and then the
ranges, for each rank along it, of the numbers in the second operand whose rows it keeps."""

_EXPERTS = "e"
_TABLE_ROWS = "v"


def local_results(
    op: ir.Operation, assignment: Assignment, coordinates: Sequence[int]
) -> list[ir.Value]:
    """What the rank at `coordinates` has in the place of `op`, whose operands are its parts."""
    view, splits = op.opview, assignment.splits
    types = [
        local_type(result.type, layout, coordinates)
        for result, layout in zip(op.results, assignment.results, strict=True)
    ]
    if isinstance(view, LinearOp) and view.bias is not None and assignment.sum_axes:
        return [_linear_of_sums(view, assignment, types[0])]
    if isinstance(view, EmbeddingOp) and _TABLE_ROWS in splits:
        values = [_look_up(view, splits[_TABLE_ROWS], coordinates, types[0])]
    elif isinstance(view, ExpertLinearOp) and _EXPERTS in splits:
        values = [_own_experts(view, splits[_EXPERTS], coordinates, types[0])]
    elif any(isinstance(split, Dealt) for split in splits.values()):
        values = _in_own_columns(op, splits, coordinates, types)
    else:
        values = _same_on_parts(op, types)
    axes = assignment.sum_axes
    return [add_up(value, axes) for value in values] if axes else values


def _same_on_parts(op: ir.Operation, types: list[ir.Type]) -> list[ir.Value]:
    """The same operation, whose static sizes are those of the parts."""
    clone = op.clone()
    for result, type_ in zip(clone.results, types, strict=True):
        result.set_type(type_)
    for name in ("static_output_shape", "static_sizes"):
        if name in clone.attributes:
            sizes = zip(list(clone.attributes[name]), types[0].shape, strict=True)
            known = [size if size < 0 else local for size, local in sizes]
            clone.attributes[name] = ir.DenseI64ArrayAttr.get(known)
    return list(clone.results)


def _linear_of_sums(op: LinearOp, assignment: Assignment, type_: ir.Type) -> ir.Value:
    """The bias once: added to the sum of all ranks' products."""
    products = LinearOp(op.x, op.weight, op.transposed, type_).out
    names = letters(type_.rank)
    total = add_up(products, assignment.sum_axes)
    return pointwise(
        f"{names},{names[-1]}->{names}", lambda y, bias, _: arith.addf(y, bias), total, op.bias
    )


def _in_own_columns(
    op: ir.Operation, splits: Splits, coordinates: Sequence[int], types: list[ir.Type]
) -> list[ir.Value]:
    """What `op` is on the rank's columns of a KV cache."""
    view, split = op.opview, next(each for each in splits.values() if isinstance(each, Dealt))
    place = coordinates[split.axis]
    if isinstance(view, CacheAppendOp):
        return [append_part(view, split, place)]
    if isinstance(view, CacheReadOp):
        return [read_part(view, split, place)]
    if isinstance(view, AttentionOp):
        return [attend_to_part(view, split, place, types[0])]
    return _same_on_parts(op, types)


def _look_up(op: EmbeddingOp, rows: Split, coordinates: Sequence[int], type_: ir.Type) -> ir.Value:
    """The rows that this part of the table has, and zeros for the others."""
    found = EmbeddingOp(_within(op.ids, rows.part(coordinates)), op.table, type_).out
    return _zero_outside(found, op.ids, rows, coordinates)


def _own_experts(
    op: ExpertLinearOp, experts: Split, coordinates: Sequence[int], type_: ir.Type
) -> ir.Value:
    """What the experts make of the rows that chose one of this rank's, and zeros for the others."""
    own = _within(op.expert, experts.part(coordinates))
    y = ExpertLinearOp(op.x, own, op.weight, op.top_k, op.transposed, type_).out
    return _zero_outside(y, op.expert, experts, coordinates)


def _within(numbers: ir.Value, range_: Range) -> ir.Value:
    """The numbers counted from the start of the range, those outside of it moved to its ends."""
    begin, end = range_
    names, element = letters(numbers.type.rank), numbers.type.element_type

    def moved(number: ir.Value, _: ir.Value) -> ir.Value:
        from_start = arith.subi(number, constant(begin, element))
        least = arith.maxsi(from_start, constant(0, element))
        return arith.minsi(least, constant(end - begin - 1, element))

    return pointwise(f"{names}->{names}", moved, numbers)


def _zero_outside(
    rows: ir.Value, numbers: ir.Value, split: Split, coordinates: Sequence[int]
) -> ir.Value:
    """`rows [..., K]`, and zeros where the number in `numbers [...]` is not in the rank's part."""
    begin, end = split.part(coordinates)
    lead = letters(numbers.type.rank)
    element, integer = rows.type.element_type, numbers.type.element_type

    def kept(row: ir.Value, number: ir.Value, _: ir.Value) -> ir.Value:
        from_start = arith.subi(number, constant(begin, integer))
        is_own = arith.cmpi(arith.CmpIPredicate.ult, from_start, constant(end - begin, integer))
        return arith.select(is_own, row, constant(0.0, element))

    own = pointwise(f"{lead}k,{lead}->{lead}k", kept, rows, numbers)
    own.owner.attributes[ROWS] = ir.DenseI64ArrayAttr.get([split.axis, *chain(*split.ranges)])
    return own
