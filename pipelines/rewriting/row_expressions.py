"""What is computed of rows, element by element and by reductions, as loops over their elements.

*Row operations* are those that compute a row element by element from rows, and those that reduce
one to an element; several rows are computed alike, from as many and from one. What they compute in
between may be truths, i1. Reshapes are looked through.
"""

from collections.abc import Iterator, Sequence

from torch_mlir import ir
from torch_mlir.extras import types as T

from llmc.dialects.index_notation import pointwise, reduce
from llmc.pipelines.rewriting.generics import (
    apply_body,
    captures_constants,
    inputs,
    is_constant,
    maps,
    reads_room,
)
from llmc.pipelines.rewriting.operations import made_by
from llmc.pipelines.rewriting.row_forms import (
    form_of,
    is_of_truths,
    is_reshape,
    long_dims,
    part_of_row,
    row_form,
    under_reshapes,
)
from llmc.pipelines.walks import find

_COMBINERS = (
    "arith.addf",
    "arith.maximumf",
    "arith.maxnumf",
    "arith.minimumf",
    "arith.minnumf",
    "arith.mulf",
)


def row_results(block: ir.Block) -> list[ir.Value]:
    """The rows of `block` that are to be computed once, element by element.

    Those that others read than row operations, except where these put them beside other tensors;
    and what several of them need that takes a reduction, such as a residual after a norm. Several
    rows stand between kernels: with other computation around them IREE fuses it.
    """
    computed = [op.operation.results[0] for op in block if _is_elementwise(op.operation)]
    rows = [row for row in computed if row_form(row).length > 1 and not is_of_truths(row.type)]
    found = [row for row in rows if not _is_copy(row) and _is_read_outside(row)]
    for row in reversed(rows):
        users = [other for other in found if row in _on_the_way(other, found)]
        if row not in found and len(users) > 1 and _needs_reduction(row):
            found.append(row)
    return [row for row in rows if row in found and _can_be_kernel(row)]


class RowExpression:
    """How the row `value` is computed from `leaves`, which are rows that are there."""

    def __init__(self, value: ir.Value) -> None:
        self._end = value.owner.operation
        self._reductions: list[ir.Operation] = []
        self._collect_reductions(self._end)

    @property
    def is_several(self) -> bool:
        """Whether there are several rows."""
        return row_form(self._end.results[0]).is_several

    @property
    def leaves(self) -> list[ir.Value]:
        """Each once, in the order of reading."""
        reads = (value for op in (*self._reductions, self._end) for value in _sources(op))
        return [value for value in dict.fromkeys(reads) if not _is_reduction(value.owner)]

    def build(self, known: dict[ir.Value, ir.Value]) -> ir.Value:
        """The row `[N]`, computed here, or several as `[T, N]`.

        `known` has the leaves, as `as_loops` gives them. Each reduction is a loop over the row.
        What is computed element by element is so in all loops that read it.
        """
        for op in self._reductions:
            known = {**known, op.results[0]: _loop(op, known)}
        return _loop(self._end, known)

    def _collect_reductions(self, op: ir.Operation) -> None:
        for value in _sources(op):
            if _is_reduction(value.owner) and value.owner.operation not in self._reductions:
                self._collect_reductions(value.owner.operation)
                self._reductions.append(value.owner.operation)


def _loop(op: ir.Operation, known: dict[ir.Value, ir.Value]) -> ir.Value:
    """One loop over what `op` reads, be it through what is computed element by element."""
    sources = _sources(op)
    loops = [known[source] for source in sources]
    reads = ",".join(row_form(value).letters for value in loops)
    forms = [row_form(operand) for operand in op.operands]
    length = max(form.length for form in forms)
    rows = "t" if any(form.is_several for form in forms) else ""
    element = op.results[0].type.element_type

    def body(*elements: ir.Value) -> ir.Value:
        *read, old = elements
        made = dict(zip(sources, read, strict=True))
        return apply_body(op, [*(_element(value, made) for value in inputs(op)), old])

    if _is_reduction(op):
        start = _start(op).owner.opview.literal_value
        return reduce(f"{reads}->{rows}", body, start, *loops, element=element, n=length)
    return pointwise(f"{reads}->{rows}n", body, *loops, element=element, n=length)


def _element(value: ir.Value, made: dict[ir.Value, ir.Value]) -> ir.Value:
    """The element of `value` that a loop is at, made of those in `made`, which remembers it."""
    value = under_reshapes(value)
    if value not in made:
        op = value.owner.operation
        made[value] = apply_body(op, [_element(each, made) for each in inputs(op)])
    return made[value]


def _sources(op: ir.Operation) -> list[ir.Value]:
    """What a loop for `op` reads: rows that are there, and results of reductions, each once."""
    found: dict[ir.Value, None] = {}
    for value in map(under_reshapes, inputs(op)):
        is_computed = not isinstance(value.owner, ir.Block) and _is_elementwise(value.owner)
        found.update(dict.fromkeys(_sources(value.owner.operation) if is_computed else [value]))
    return list(found)


def _on_the_way(row: ir.Value, there: Sequence[ir.Value] = ()) -> set[ir.Value]:
    """What row operations compute to compute `row`, where the rows `there` need not be."""
    found, waiting = set[ir.Value](), [row]
    while waiting:
        for value in map(under_reshapes, inputs(waiting.pop().owner.operation)):
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
    source = under_reshapes(op.operands[ir.BlockArgument(end.operands[0]).arg_number])
    return not _is_elementwise(source.owner) or _is_read_outside(source) or _is_copy(source)


def _can_be_kernel(row: ir.Value) -> bool:
    """Whether `row` is one, or several that stand between kernels."""
    if not row_form(row).is_several:
        return True
    several = [leaf for leaf in RowExpression(row).leaves if row_form(leaf).is_several]
    are_given = all(_is_given(part_of_row(leaf)[0]) for leaf in several)
    return are_given and all(_is_kernel(op) or _takes_part(op) for op in _readers(row))


def _is_given(row: ir.Value) -> bool:
    """Whether the caller gives `row`, or a kernel, or what can be one."""
    owner = under_reshapes(row).owner
    if isinstance(owner, ir.Block) or _is_kernel(owner):
        return True
    return _is_elementwise(owner) and _can_be_kernel(under_reshapes(row))


def _is_kernel(op: ir.Operation | ir.OpView) -> bool:
    name = op.operation.name
    return name in ("func.call", "func.return") or name.startswith("llmc.")


def _takes_part(op: ir.Operation) -> bool:
    """Whether `op` cuts a row from another, as kernels can read it."""
    return op.name == "tensor.extract_slice" and part_of_row(op.results[0])[0] != op.results[0]


def _is_read_outside(row: ir.Value) -> bool:
    return any(not _puts_together(reader) for reader in _readers(row))


def _readers(row: ir.Value) -> Iterator[ir.Operation]:
    """The operations that read `row`, but for row operations and what asks for its extents."""
    for use in row.uses:
        user = use.owner.operation
        if is_reshape(user):
            yield from _readers(user.results[0])
        elif user.name != "tensor.dim" and not _is_row_operation(user):
            yield user


def _puts_together(op: ir.Operation) -> bool:
    """Whether `op`, which is no row operation, reads rows to make a larger tensor of them."""
    return op.name in ("linalg.generic", "tensor.concat", "tensor.insert_slice")


def _is_elementwise(op: ir.Operation | ir.OpView | ir.Block) -> bool:
    return _is_of_rows(op) and not reads_room(op.operation) and not _reduces(op)


def _is_reduction(op: ir.Operation | ir.OpView | ir.Block) -> bool:
    """Whether `op` folds a row to one element, by an operation that MLIR can do in parts."""
    if not _is_of_rows(op) or row_form(op.operation.results[0]).length != 1:
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
        and _start(op).type == T.f32()
    )


def _is_of_rows(op: ir.Operation | ir.OpView | ir.Block) -> bool:
    """Whether `op` is a linalg.generic that reads and writes all rows alike, element by element."""
    if isinstance(op, ir.Block) or op.operation.name != "linalg.generic":
        return False
    op = op.operation
    if len(op.results) != 1 or not all(form_of(operand.type) for operand in op.operands):
        return False
    truths = [under_reshapes(each) for each in inputs(op) if is_of_truths(each.type)]
    return (
        len(op.operands) > 1
        and all(_is_elementwise(each.owner) for each in truths)
        and not any(map(_may_have_gaps, inputs(op)))
        and _loops_over_rows(op)
        and not find(op, "linalg.index")
        and captures_constants(op)
    )


def _may_have_gaps(value: ir.Value) -> bool:
    """Whether `value` is cut from something so that its elements may not follow each other."""
    value = under_reshapes(value)
    is_cut = made_by(value, "tensor.extract_slice") is not None
    return is_cut and len(long_dims(value.type)) > 1 and part_of_row(value)[0] == value


def _loops_over_rows(op: ir.Operation) -> bool:
    """Whether all operands are read by the same loops: the several by one, elements by others.

    That is so of the dimensions that are longer than 1, in their order. Several rows are computed
    from several.
    """
    over_rows, over_elements = set(), set()
    for operand, map_ in zip(op.operands, maps(op), strict=True):
        loops = tuple(map_.results[dim] for dim in long_dims(operand.type))
        if row_form(operand).is_several:
            over_rows.add(loops[:1])
            loops = loops[1:]
        over_elements.add(loops)
    over_elements.discard(())
    all_loops = [loop for each in (*over_rows, *over_elements) for loop in each]
    *read, out = (row_form(operand).is_several for operand in op.operands)
    return (
        len(over_rows) <= 1
        and len(over_elements) <= 1
        and all(isinstance(loop, ir.AffineDimExpr) for loop in all_loops)
        and len({*all_loops}) == len(all_loops)
        and out == any(read)
    )


def _start(op: ir.Operation | ir.OpView) -> ir.Value:
    """What a reduction begins with: the number that a tensor is filled with, or else the tensor."""
    *_, start = op.operation.operands
    fill = made_by(start, "linalg.fill")
    return fill.operands[0] if fill else start


def _reduces(op: ir.Operation | ir.OpView) -> bool:
    """Whether a loop of a linalg.generic is a reduction."""
    return any("reduction" in str(kind) for kind in op.operation.attributes["iterator_types"])
