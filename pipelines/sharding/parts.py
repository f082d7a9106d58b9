"""The parts that a weight is taken apart into, as gate and up projection of one matrix."""

from torch_mlir import ir
from torch_mlir.dialects import tensor


def parts_of(parameter: ir.Value) -> list[ir.Value]:
    """The slices that `parameter` is taken apart into, in the order in which they lie."""
    users = [use.owner.opview for use in parameter.uses]
    slices = [user for user in users if isinstance(user, tensor.ExtractSliceOp)]
    return [op.result for op in sorted(slices, key=lambda op: list(op.static_offsets))]
