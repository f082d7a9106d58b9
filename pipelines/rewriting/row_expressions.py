"""What is computed of one row, element by element and by reductions, as loops over that row.

A *row* is a tensor of f32 as all of its elements, in order: of one token, most have but one
dimension longer than 1. *Row operations* are those that compute a row element by element from rows,
and those that reduce one to an element. What they compute in between may be truths, i1. Reshapes
leave the elements in their order, and transpositions that move none but dimensions of 1: they are
looked through.
"""

from collections.abc import Sequence
from math import prod

from torch_mlir import ir
from torch_mlir.dialects import tensor

from llmc.dialects.index_notation import collapse, expand, pointwise, reduce
from llmc.pipelines.rewriting.generics import (
    apply_body,
    captures_constants,
    inputs,
    is_constant,
    maps,
    reads_room,
)
from llmc.pipelines.rewriting.operations import keeps_order, made_by
from llmc.pipelines.walks import find

_COMBINERS = (
    "arith.addf",
    "arith.maximumf",
    "arith.maxnumf",
    "arith.minimumf",
    "arith.minnumf",
    "arith.mulf",
)
_RESHAPES = ("tensor.collapse_shape", "tensor.expand_shape", "linalg.transpose")


def row_results(block: ir.Block) -> list[ir.Value]:
    """The rows of `block` that are to be computed once, element by element.

    Those that others read than row operations, except where these put them beside other tensors;
    and what several of them need that takes a reduction, such as a residual after a norm.
    """
    computed = [op.operation.results[0] for op in block if _is_elementwise(op.operation)]
    rows = [row for row in computed if (length_of(row.type) or 1) > 1]
    found = [row for row in rows if not _is_copy(row) and _is_read_outside(row)]
    for row in reversed(rows):
        users = [other for other in found if row in _on_the_way(other, found)]
        if row not in found and len(users) > 1 and _needs_reduction(row):
            found.append(row)
    return [row for row in rows if row in found]


class RowExpression:
    """How the row `value` is computed from `leaves`, which are rows that are there."""

    def __init__(self, value: ir.Value) -> None:
        self._end = value.owner.operation
        self._reductions: list[ir.Operation] = []
        self._collect_reductions(self._end)

    @property
    def leaves(self) -> list[ir.Value]:
        """Each once, in the order of reading."""
        reads = (value for op in (*self._reductions, self._end) for value in _sources(op))
        return [value for value in dict.fromkeys(reads) if not _is_reduction(value.owner)]

    def build(self, known: dict[ir.Value, ir.Value]) -> ir.Value:
        """The row `[N]`, computed here; `known` has the leaves, as `as_vector` gives them.

        Each reduction is a loop over the row. What is computed element by element is so in all
        loops that read it.
        """
        for op in self._reductions:
            known = {**known, op.results[0]: _loop(op, known)}
        return _loop(self._end, known)

    def _collect_reductions(self, op: ir.Operation) -> None:
        for value in _sources(op):
            if _is_reduction(value.owner) and value.owner.operation not in self._reductions:
                self._collect_reductions(value.owner.operation)
                self._reductions.append(value.owner.operation)


def as_vector(row: ir.Value) -> ir.Value:
    """A row of N elements as `[N]`, or `[]` where that is one."""
    groups = [] if length_of(row.type) == 1 else [row.type.rank]
    return row if row.type.rank == len(groups) else collapse(row, groups)


def part_of_row(row: ir.Value) -> tuple[ir.Value, int]:
    """The row that `row` is cut from, and at which element; else itself, and 0."""
    slice_ = made_by(row, "tensor.extract_slice")
    if slice_ is None:
        return row, 0
    cut: tensor.ExtractSliceOp = slice_.opview
    source, starts = cut.source, list(cut.static_offsets)
    unknown = ir.ShapedType.get_dynamic_size()
    is_part = unknown not in starts and set(cut.static_strides) == {1}
    if length_of(source.type) is None or len(_long_dims(source.type)) > 1 or not is_part:
        return row, 0
    return _under_reshapes(source), sum(starts)


def reshaped(vector: ir.Value, type_: ir.RankedTensorType) -> ir.Value:
    """The row `vector [N]` as of `type_`."""
    return vector if vector.type == type_ else expand(vector, [list(type_.shape)])


def length_of(type_: ir.Type) -> int | None:
    """How many elements a row of `type_` has; None where `type_` is not that of a row."""
    return None if _is_of_truths(type_) else _length_of(type_)


def _length_of(type_: ir.Type) -> int | None:
    """As `length_of`, of truths too."""
    if not isinstance(type_, ir.RankedTensorType) or not type_.has_static_shape:
        return None
    holds = _is_of_truths(type_) or type_.element_type == ir.F32Type.get()
    return prod(type_.shape) if holds else None


def _long_dims(type_: ir.RankedTensorType) -> list[int]:
    return [dim for dim, extent in enumerate(type_.shape) if extent > 1]


def _is_of_truths(type_: ir.Type) -> bool:
    is_tensor = isinstance(type_, ir.RankedTensorType)
    return is_tensor and type_.element_type == ir.IntegerType.get_signless(1)


def _loop(op: ir.Operation, known: dict[ir.Value, ir.Value]) -> ir.Value:
    """One loop over what `op` reads, be it through what is computed element by element."""
    sources = _sources(op)
    vectors = [known[source] for source in sources]
    reads = ",".join("n" if vector.type.rank else "" for vector in vectors)
    length = max(_length_of(operand.type) or 1 for operand in op.operands)

    def body(*elements: ir.Value) -> ir.Value:
        *read, old = elements
        made = dict(zip(sources, read, strict=True))
        return apply_body(op, [*(_element(value, made) for value in inputs(op)), old])

    if _is_reduction(op):
        start = _start(op).owner.opview.literal_value
        return reduce(f"{reads}->", body, start, *vectors, n=length)
    return pointwise(f"{reads}->n", body, *vectors, n=length)


def _element(value: ir.Value, made: dict[ir.Value, ir.Value]) -> ir.Value:
    """The element of `value` that a loop is at, made of those in `made`, which remembers it."""
    value = _under_reshapes(value)
    if value not in made:
        op = value.owner.operation
        made[value] = apply_body(op, [_element(each, made) for each in inputs(op)])
    return made[value]


def _sources(op: ir.Operation) -> list[ir.Value]:
    """What a loop for `op` reads: rows that are there, and results of reductions, each once."""
    found: dict[ir.Value, None] = {}
    for value in map(_under_reshapes, inputs(op)):
        is_computed = not isinstance(value.owner, ir.Block) and _is_elementwise(value.owner)
        found.update(dict.fromkeys(_sources(value.owner.operation) if is_computed else [value]))
    return list(found)


def _under_reshapes(value: ir.Value) -> ir.Value:
    while _is_reshape(value.owner):
        value = value.owner.operands[0]
    return value


def _is_reshape(op: ir.Operation | ir.OpView | ir.Block) -> bool:
    if isinstance(op, ir.Block) or op.operation.name not in _RESHAPES:
        return False
    if _length_of(op.operands[0].type) is None:
        return False
    return op.operation.name != "linalg.transpose" or keeps_order(op.opview)


def _on_the_way(row: ir.Value, there: Sequence[ir.Value] = ()) -> set[ir.Value]:
    """What row operations compute to compute `row`, where the rows `there` need not be."""
    found, waiting = set[ir.Value](), [row]
    while waiting:
        for value in map(_under_reshapes, inputs(waiting.pop().owner.operation)):
            if value not in found and value not in there and _is_row_operation(value.owner):
                found.add(value)
                waiting.append(value)
    return found


def _needs_reduction(row: ir.Value) -> bool:
    return any(_is_reduction(value.owner) for value in _on_the_way(row))


def _is_row_operation(op: ir.Operation | ir.OpView | ir.Block) -> bool:
    return _is_elementwise(op) or _is_reduction(op)


def _is_copy(row: ir.Value) -> bool:
    """Whether `row`, which an elementwise operation gives, is another that is there or read too."""
    op = row.owner.operation
    *_, end = op.regions[0].blocks[0].operations
    if not isinstance(end.operands[0].owner, ir.Block):
        return False
    source = _under_reshapes(op.operands[ir.BlockArgument(end.operands[0]).arg_number])
    return not _is_elementwise(source.owner) or _is_read_outside(source) or _is_copy(source)


def _is_read_outside(value: ir.Value) -> bool:
    users = [use.owner for use in value.uses]
    return any(
        _is_read_outside(user.operation.results[0])
        if _is_reshape(user)
        else not _is_row_operation(user) and not _puts_together(user)
        for user in users
    )


def _puts_together(op: ir.Operation) -> bool:
    """Whether `op`, which is no row operation, reads rows to make a larger tensor of them."""
    return op.name in ("linalg.generic", "tensor.concat", "tensor.insert_slice")


def _is_elementwise(op: ir.Operation | ir.OpView | ir.Block) -> bool:
    return _is_of_rows(op) and not reads_room(op.operation) and not _reduces(op)


def _is_reduction(op: ir.Operation | ir.OpView | ir.Block) -> bool:
    """Whether `op` folds a row to one element, by an operation that MLIR can do in parts."""
    if not _is_of_rows(op) or length_of(op.operation.results[0].type) != 1:
        return False
    block = op.operation.regions[0].blocks[0]
    *_, old = block.arguments
    *_, end = block.operations
    combiner = end.operands[0].owner
    return (
        _reduces(op)
        and not isinstance(combiner, ir.Block)
        and combiner.name in _COMBINERS
        and [use.owner.operation for use in old.uses] == [combiner.operation]
        and is_constant(_start(op))
        and _start(op).type == ir.F32Type.get()
    )


def _is_of_rows(op: ir.Operation | ir.OpView | ir.Block) -> bool:
    """Whether `op` is a linalg.generic that reads and writes all rows alike, element by element."""
    if isinstance(op, ir.Block) or op.operation.name != "linalg.generic":
        return False
    op = op.operation
    if len(op.results) != 1 or any(_length_of(operand.type) is None for operand in op.operands):
        return False
    truths = [_under_reshapes(each) for each in inputs(op) if _is_of_truths(each.type)]
    loops = _long_loops(op)
    return (
        len(op.operands) > 1
        and all(_is_elementwise(each.owner) for each in truths)
        and not any(map(_is_part_of_rows, inputs(op)))
        and len(loops) <= 1
        and all(isinstance(loop, ir.AffineDimExpr) for each in loops for loop in each)
        and all(len({*each}) == len(each) for each in loops)
        and not find(op, "linalg.index")
        and captures_constants(op)
    )


def _is_part_of_rows(value: ir.Value) -> bool:
    """Whether `value` is cut from something so that its elements may not follow each other."""
    value = _under_reshapes(value)
    return len(_long_dims(value.type)) > 1 and made_by(value, "tensor.extract_slice") is not None


def _long_loops(op: ir.Operation) -> set[tuple[ir.AffineExpr, ...]]:
    """What indexes the dimensions that are longer than 1, of each operand that has such."""
    loops = (
        tuple(map_.results[dim] for dim in _long_dims(operand.type))
        for operand, map_ in zip(op.operands, maps(op), strict=True)
    )
    return {each for each in loops if each}


def _start(op: ir.Operation | ir.OpView) -> ir.Value:
    """What a reduction begins with: the number that a tensor is filled with, or else the tensor."""
    *_, start = op.operation.operands
    fill = made_by(start, "linalg.fill")
    return fill.operands[0] if fill else start


def _reduces(op: ir.Operation | ir.OpView) -> bool:
    """Whether a loop of a linalg.generic is a reduction."""
    return any("reduction" in str(kind) for kind in op.operation.attributes["iterator_types"])
