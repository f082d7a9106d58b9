"""`dispatch-kernels`: hands scheduled kernels to IREE as finished code."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import func

from llmc.dialects.index_notation import as_value, size
from llmc.pipelines.errors import fail
from llmc.pipelines.kernels.best_of_row import part_types, with_best
from llmc.pipelines.kernels.counters import Counters
from llmc.pipelines.kernels.kernel import Kernel, dispatch, module_around, under_view
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.functions import functions, is_private, symbol_users
from llmc.pipelines.rewriting.kernel_functions import is_distributed, kind_of
from llmc.pipelines.rewriting.operations import is_read
from llmc.pipelines.rewriting.scheduled_kernel import (
    has_best,
    places_of_result_extents,
    scheduled_kernel,
    split_arguments,
    workgroups_of_row,
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
        users = symbol_users(module)
        for function in functions(module):
            if kind_of(function) is not None and is_distributed(function):
                named_by = users[function.sym_name.value]
                if calls := [user.opview for user in named_by if user.name == "func.call"]:
                    _dispatch(function, calls)
                if is_private(function.operation):
                    function.operation.erase()


def _dispatch(function: func.FuncOp, calls: list[func.CallOp]) -> None:
    kernel = scheduled_kernel(function)
    run = _run_with_best if has_best(function) else _run
    for call in calls:
        operands = list(call.operands)
        with ir.InsertionPoint(call), call.location:
            results = run(kernel, function, call)
        for old, new in zip(call.results, results, strict=True):
            old.replace_all_uses_with(new)
        call.operation.erase()
        for operand in dict.fromkeys(operands):
            if under_view(operand) != operand and not is_read(operand):
                operand.owner.erase()


def _run(kernel: Kernel, function: func.FuncOp, call: func.CallOp) -> list[ir.Value]:
    operands = list(call.operands)
    tensors, scalars = split_arguments(operands)
    return dispatch(
        kernel,
        tensors,
        [result.type for result in call.results],
        [
            as_value(size(operands[number], dim))
            for number, dim in places_of_result_extents(function)
        ],
        scalars,
    )


def _run_with_best(kernel: Kernel, function: func.FuncOp, call: func.CallOp) -> list[ir.Value]:
    tensors, scalars = split_arguments(list(call.operands))
    row, best = (result.type for result in call.results)
    workgroups = workgroups_of_row(function)
    if workgroups is None:
        fail(function, "a kernel that finds the best of a row cuts the row into equal parts")
    counters = Counters(module_around(call.operation), "argmax.done", 1, 32)
    row_value, best_value, _, _, done = dispatch(
        with_best(kernel, row, workgroups),
        tensors,
        [row, best, *part_types(1, workgroups, row.element_type)],
        scalars=scalars,
        updated=[counters.load()],
    )
    counters.store(done)
    return [row_value, best_value]
