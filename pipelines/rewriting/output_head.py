"""What an output head is: the linear layer that makes a number of each token of the vocabulary."""

from torch_mlir import ir

from llmc.dialects import LinearOp, QuantizedLinearOp
from llmc.pipelines.rewriting.operations import made_by

HEADS = {("llmc.linear", 1), ("llmc.quantized_linear", 1)}
"""Output heads: the operations, and the number of the operand that is the weight."""


def head_of(op: ir.Operation) -> ir.OpView | None:
    """The linear layer of which `op`, an `llmc.argmax`, finds each row's best output; or None."""
    if op.name != "llmc.argmax":
        return None
    reshape = made_by(op.operands[0], "tensor.collapse_shape")
    linear = reshape and made_by(reshape.operands[0], *dict(HEADS))
    if not reshape or not linear or not keeps_outputs(reshape):
        return None
    return linear.opview


def keeps_outputs(reshape: ir.Operation) -> bool:
    """Whether a `tensor.collapse_shape` merges no outputs of a layer with others."""
    (source,), (merged,) = reshape.operands, reshape.results
    return bool(source.type.shape[-1] == merged.type.shape[-1])


def has_plain_rows(linear: LinearOp | QuantizedLinearOp) -> bool:
    """Whether a layer multiplies by the rows of its weight `[N, K]`, and adds no bias."""
    is_transposed = isinstance(linear, LinearOp) and linear.transposed.value
    return linear.bias is None and not is_transposed
