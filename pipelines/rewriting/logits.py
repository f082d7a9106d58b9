"""What passes know logits by."""

from torch_mlir import ir


def is_logits(type_: ir.Type) -> bool:
    """Whether `type_` is a matrix `[B, V]` of floats, V being known."""
    return (
        isinstance(type_, ir.RankedTensorType)
        and type_.rank == 2
        and isinstance(type_.element_type, ir.FloatType)
        and not type_.is_dynamic_dim(1)
        and type_.shape[1] > 0
    )
