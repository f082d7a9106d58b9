"""How large what a kernel returns is, for the rules that choose a schedule by it."""

from torch_mlir import ir
from torch_mlir.dialects import func


def last_extents(kernel: func.FuncOp, count: int) -> list[int] | None:
    """The last `count` extents of the first result; None where it has none such, or open ones."""
    type_ = next(iter(kernel.type.results), None)
    if not isinstance(type_, ir.RankedTensorType) or type_.rank < count:
        return None
    dims = range(type_.rank - count, type_.rank)
    return None if any(map(type_.is_dynamic_dim, dims)) else [type_.shape[dim] for dim in dims]
