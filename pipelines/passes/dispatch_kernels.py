"""`dispatch-kernels`: hands scheduled kernels to IREE as finished code."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import func

from llmc.dialects.index_notation import as_value, size
from llmc.pipelines.kernels.kernel import dispatch, under_view
from llmc.pipelines.passes.base import Pass, calls_of, functions, is_layer
from llmc.pipelines.passes.kernel_functions import is_distributed, kind_of
from llmc.pipelines.passes.scheduled_kernel import (
    result_extents,
    scheduled_kernel,
    split_arguments,
)


@dataclass(frozen=True)
class DispatchKernels(Pass):
    """Turns calls of kernels that a schedule has distributed over workgroups into dispatches.

    The kernel, on buffers, becomes an executable that IREE compiles as it is. Kernels that no
    schedule has distributed are left alone.
    """

    name: ClassVar[str] = "dispatch-kernels"

    def apply(self, module: ir.Module) -> None:
        """Replaces kernel by kernel."""
        module.context.allow_unregistered_dialects = True
        for function in functions(module):
            if kind_of(function) is not None and is_distributed(function):
                _dispatch(module, function)


def _dispatch(module: ir.Module, function: func.FuncOp) -> None:
    kernel, extents = scheduled_kernel(function), result_extents(function)
    for call in calls_of(module, function):
        operands = list(call.operands)
        tensors, scalars = split_arguments(operands)
        with ir.InsertionPoint(call), call.location:
            results = dispatch(
                kernel,
                tensors,
                [result.type for result in call.results],
                [as_value(size(operands[number], dim)) for number, dim in extents],
                scalars,
            )
        for old, new in zip(call.results, results, strict=True):
            old.replace_all_uses_with(new)
        call.operation.erase()
        for operand in dict.fromkeys(operands):
            if under_view(operand) != operand and not any(True for _ in operand.uses):
                operand.owner.erase()
    if is_layer(function):
        function.operation.erase()
