"""Increasing functions of each number, which models put behind their output heads.

Logits are multiplied by a constant, or capped (Gemma 2: `cap * tanh(x / cap)`).
"""

from math import inf

from torch_mlir import ir

from llmc.pipelines.clones import clone_with
from llmc.pipelines.rewriting.generics import float_constant, is_elementwise
from llmc.pipelines.rewriting.operations import made_by

_RESHAPES = ("tensor.collapse_shape", "tensor.extract_slice")
_SCALINGS = ("arith.mulf", "arith.divf")


def before_increasing(value: ir.Value) -> ir.Value:
    """Numbers that are in the order of those of `value`, which increasing functions make of them.

    Where these end in a reshape or a slice, that is made of the numbers here; `value` itself where
    there are no such functions. Of two numbers that rounding makes equal, one was the larger.
    """
    op = made_by(value, "linalg.generic", *_RESHAPES)
    if op is None:
        return value
    if op.name == "linalg.generic":
        return before_increasing(op.operands[0]) if _is_increasing(op) else value
    before = before_increasing(op.operands[0])
    if before == op.operands[0]:
        return value
    known = {op.operands[0]: before}
    clone_with(op, known)
    return known[value]


def _is_increasing(op: ir.Operation) -> bool:
    """Whether a linalg.generic makes each number of one of its only input, of the same type."""
    if len(op.results) != 1 or not is_elementwise(op):
        return False
    body = op.regions[0].blocks[0]
    value: ir.Value | None = body.operations[-1].operands[0]
    while value is not None and value != body.arguments[0]:
        value = _operand_of_increasing(value)
    return value is not None and op.operands[0].type == op.results[0].type


def _operand_of_increasing(value: ir.Value) -> ir.Value | None:
    """The number of which an increasing function makes `value`; None where none that is known."""
    tanh = made_by(value, "math.tanh")
    if tanh is not None:
        return tanh.operands[0]
    scaling = made_by(value, *_SCALINGS)
    if scaling is None:
        return None
    x, factor = scaling.operands
    if scaling.name == "arith.mulf" and float_constant(factor) is None:
        x, factor = factor, x
    number = float_constant(factor)
    return x if number is not None and 0 < number < inf else None
