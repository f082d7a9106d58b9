"""Functions of a model that know of the KV cache: they take tokens, start, sequence and past."""

from torch_mlir import ir
from torch_mlir.dialects import arith, func
from torch_mlir.extras import types as T

from llmc.dialects.index_notation import constant, loop_index, pointwise


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


def positions_of(tokens: ir.Value, start: ir.Value, past: ir.Value) -> ir.Value:
    """`past + t - start[b]` for each token, 0 for the columns before a sequence's start."""
    i64 = tokens.type.element_type

    def position(_token: ir.Value, start: ir.Value, _: ir.Value) -> ir.Value:
        column = arith.index_cast(i64, arith.addi(past, loop_index(1)))
        return arith.maxsi(arith.subi(column, start), constant(0, i64))

    return pointwise("bt,b->bt", position, tokens, start)
