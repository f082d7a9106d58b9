"""Which operations compute each row of a prompt by itself.

Rows are in the one open dimension of a tensor; weights and single numbers have none.
"""

from torch_mlir import ir
from torch_mlir.dialects import shard, tensor

from llmc.pipelines.several_rows import open_dims
from llmc.pipelines.sharding.rules import is_free, rule_of


def rows_dim(value: ir.Value) -> int | None:
    """The dimension of the rows of `value`; None where it has none."""
    return next(iter(open_dims(value.type)), None)


def is_by_row(op: ir.Operation | ir.OpView) -> bool:
    """Whether a row of what `op` makes is made of that row of its operands alone."""
    view = op.operation.opview
    values = [*view.operands, *view.results]
    if any(len(open_dims(value.type)) > 1 for value in values):
        return False
    dims = [rows_dim(value) for value in values]
    if set(dims) == {None} or isinstance(view, tensor.DimOp) or is_free(view.operation):
        return True
    if isinstance(view, shard.AllReduceOp):
        return True
    if isinstance(view, shard.AllGatherOp):
        return view.gather_axis.value not in dims
    if isinstance(view, shard.ReduceScatterOp):
        return view.scatter_dim.value not in dims
    if isinstance(view, tensor.ExtractSliceOp | tensor.InsertSliceOp):
        return _takes_whole(view, dims)
    rule = rule_of(view.operation)
    if rule is None:
        return False
    tensors = zip(dims, (*rule.operands, *rule.results), strict=True)
    rows = [each[dim] for dim, each in tensors if dim is not None]
    letters = {each.letter for each in rows if each is not None}
    return None not in rows and len(letters) == 1 and not letters & set(rule.sums)


def _takes_whole(op: tensor.ExtractSliceOp | tensor.InsertSliceOp, dims: list[int | None]) -> bool:
    """Whether a slice has all rows: where it begins with the first, and its end is open."""
    dim, *others = {dim for dim in dims if dim is not None}
    if others:
        return False
    is_open = op.static_sizes[dim] == ir.ShapedType.get_dynamic_size()
    return is_open and op.static_offsets[dim] == 0 and op.static_strides[dim] == 1
