"""Functions of a model that know of the KV cache: they take tokens, start, sequence and past."""

from torch_mlir import ir
from torch_mlir.dialects import func
from torch_mlir.extras import types as T


def holds_ids(type_: ir.Type, rank: int = 2) -> bool:
    """Whether a value is the tokens of several sequences, or their positions.

    Of `rank` 1 it is one number for each sequence.
    """
    is_tensor = isinstance(type_, ir.RankedTensorType) and type_.rank == rank
    return bool(is_tensor and type_.element_type == T.i64())


def is_threaded(trunk: func.FuncOp) -> bool:
    """Whether `trunk` takes tokens `[B, T]`, start `[B]`, sequence and past."""
    if len(trunk.arguments) != 4:
        return False
    tokens, start, *scalars = trunk.type.inputs
    return holds_ids(tokens) and holds_ids(start, 1) and scalars == [T.i64()] * 2
