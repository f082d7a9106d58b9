"""Calls of LLVM's intrinsics, for instructions that no dialect has."""

from torch_mlir import ir
from torch_mlir.dialects import llvm


def intrinsic(name: str, result: ir.Type, *operands: ir.Value) -> ir.Value:
    """What the intrinsic called `name` gives, of type `result`, for `operands`."""
    return llvm.call_intrinsic(result, name, list(operands), [], [])


def intrinsic_effect(name: str, *operands: ir.Value) -> None:
    """Calls an intrinsic that gives nothing."""
    llvm.call_intrinsic(None, name, list(operands), [], [])
