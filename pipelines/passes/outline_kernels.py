"""`outline-kernels`: makes a function of each computation that is to be one kernel."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from llmc.pipelines.clones import clone_with
from llmc.pipelines.kernels.marks import KIND
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.functions import functions
from llmc.pipelines.rewriting.kernel_functions import KernelFunctions
from llmc.pipelines.rewriting.kernel_groups import Group, find_groups, is_repeatable
from llmc.pipelines.rewriting.operations import is_used


@dataclass(frozen=True)
class OutlineKernels(Pass):
    """Turns linalg operations into calls of private functions, which schedules work on.

    A kernel is a sum of products, another reduction, or an elementwise operation, with the
    elementwise operations fused that it alone reads and, where nothing else reads its result, those
    that follow. Its function bears the attribute `llmc.kernel`, the kind of kernel: `matmul`,
    `matvec`, `contraction`, `reduction` or `elementwise`; `_q4` is added where 4-bit integers are
    unpacked. Kernels that are alike, types and constants included, share one function. What has
    effects, calls, llmc operations and data movement without computation stay where they are.
    """

    name: ClassVar[str] = "outline-kernels"

    def apply(self, module: ir.Module) -> None:
        """Outlines from the blocks of functions that are no kernels; what loops hold stays."""
        kernels = KernelFunctions(module)
        for function in functions(module):
            if KIND not in function.attributes:
                for block in function.regions[0].blocks:
                    for group in find_groups(block):
                        _outline(group, kernels)
                    _erase_unused(block)


def _outline(group: Group, kernels: KernelFunctions) -> None:
    """Replaces the group by a call of its function."""
    operands, results = list(group.operands()), group.results()

    def build(*arguments: ir.Value) -> list[ir.Value]:
        known = dict(zip(operands, arguments, strict=True))
        for op in group.with_repeated():
            clone_with(op, known)
        return [known[value] for value in results]

    last = group.members[-1]
    with ir.InsertionPoint(last), last.location:
        values = kernels.call(group.kind, operands, build)
    for old, new in zip(results, values, strict=True):
        old.replace_all_uses_with(new)
    for op in reversed(group.members):
        op.erase()


def _erase_unused(block: ir.Block) -> None:
    """Erases constants and empty tensors that kernels have of their own now."""
    for op in reversed([op.operation for op in block]):
        if is_repeatable(op) and not is_used(op):
            op.erase()
