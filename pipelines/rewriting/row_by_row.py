"""Operations that compute each of several rows from the same row of what they read."""

from torch_mlir import ir

from llmc.pipelines.rewriting.dispatch_chain import is_view
from llmc.pipelines.rewriting.extents import takes_whole
from llmc.pipelines.rewriting.generics import captured, maps
from llmc.pipelines.rewriting.operations import read_from_outside, upwards
from llmc.pipelines.rewriting.reshapes import RESHAPES
from llmc.pipelines.several_rows import has_rows
from llmc.pipelines.walks import find


def shows_rows(view: ir.Operation | ir.OpView) -> bool:
    """Whether `view` shows several rows of a tensor as such, each in another shape."""
    if not is_view(view) or not _are_rows(view.operation.operands[0], view.operation.results[0]):
        return False
    if view.operation.name in RESHAPES:
        first, *_ = view.opview.reassociation
        finer = max((view.opview.src.type, view.opview.result.type), key=lambda type_: type_.rank)
        return all(finer.shape[dim.value] == 1 for dim in list(first)[1:])
    return view.operation.name in ("tensor.cast", "linalg.transpose")


def is_row_by_row(op: ir.Operation) -> bool:
    """Whether `op` computes rows that each depend on one row of each tensor of rows it reads.

    What else it reads may be of any static size.
    """
    reads = read_from_outside(op)
    rows = [value for value in (*reads, *op.results) if _is_open(value)]
    if not _are_rows(*rows, *op.results):
        return False
    match op.name:
        case "linalg.generic":
            return _loops_over_rows(op)
        case "linalg.transpose":
            return op.opview.permutation[0] == 0
        case "tensor.concat":
            return op.opview.dim.value != 0
        case "tensor.extract_slice" | "tensor.insert_slice":
            return op.opview.static_strides[0] == 1 and takes_whole(op.opview, [0])
    return False


def _is_open(value: ir.Value) -> bool:
    return isinstance(value.type, ir.RankedTensorType) and not value.type.has_static_shape


def _are_rows(*values: ir.Value) -> bool:
    return all(has_rows(value.type) for value in values)


def _loops_over_rows(op: ir.Operation) -> bool:
    """Whether one loop of a linalg.generic is over all rows, and over nothing else."""
    over_rows, over_others = set[int | None](), set[int | None]()
    for operand, map_ in zip(op.operands, maps(op), strict=True):
        over_rows.update(map(_loop, list(map_.results)[: _is_open(operand)]))
        over_others.update(map(_loop, list(map_.results)[_is_open(operand) :]))
    is_one = len(over_rows) == 1 and None not in over_rows | over_others
    return is_one and over_rows.isdisjoint(over_others) and _looks_up_own(op, *over_rows)


def _looks_up_own(op: ir.Operation, over_rows: int | None) -> bool:
    """Whether a linalg.generic looks up elements of its own row alone, and asks else for no row."""
    numbers = find(op, "linalg.index")
    own = {each.results[0] for each in numbers if each.opview.dim.value == over_rows}
    readers = [
        use.owner.operation
        for value in (*own, *filter(_is_open, captured(op)))
        for use in value.uses
    ]
    return all(_looks_up(reader, own) for reader in readers if _is_within(reader, op))


def _looks_up(op: ir.Operation, rows: set[ir.Value]) -> bool:
    """Whether `op` reads an element of one of `rows`, which is a number of no other dimension."""
    if op.name != "tensor.extract" or not has_rows(op.operands[0].type):
        return False
    _, row, *others = op.operands
    return row in rows and rows.isdisjoint(others)


def _is_within(inner: ir.Operation, op: ir.Operation) -> bool:
    return inner != op and op in upwards(inner)


def _loop(place: ir.AffineExpr) -> int | None:
    """The number of the loop that reads along a dimension; -1 of none, None of several."""
    if isinstance(place, ir.AffineConstantExpr):
        return -1
    return place.position if isinstance(place, ir.AffineDimExpr) else None
