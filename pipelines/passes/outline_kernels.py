"""`outline-kernels`: makes a function of each computation that is to be one kernel."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import func

from llmc.pipelines.passes.base import Pass, functions, walk
from llmc.pipelines.passes.kernel_groups import Group, find_groups, is_repeatable
from llmc.pipelines.schedules.verbs import KIND


@dataclass(frozen=True)
class OutlineKernels(Pass):
    """Turns linalg operations into calls of private functions, which schedules work on.

    A kernel is a sum of products, another reduction, or an elementwise operation, with the
    elementwise operations fused that it alone reads and, where nothing else reads its result, those
    that follow. Its function bears the attribute `llmc.kernel`, the kind of kernel: `matmul`,
    `matvec`, `contraction`, `reduction` or `elementwise`; `_q4` is added where 4-bit integers are
    unpacked. Kernels that are alike, types and constants included, share one function. What has
    effects, calls, llmc operations and data movement without computation stay where they are.

    Runs last: other passes take private functions for layers.
    """

    name: ClassVar[str] = "outline-kernels"

    def apply(self, module: ir.Module) -> None:
        """Outlines from the blocks of functions that are no kernels; what loops hold stays."""
        outliner = _Outliner(module)
        for function in functions(module):
            if KIND not in function.attributes:
                for block in function.regions[0].blocks:
                    for group in find_groups(block):
                        outliner.outline(group)
                    _erase_unused(block)


class _Outliner:
    """Collects the functions of a module's kernels, by their text."""

    def __init__(self, module: ir.Module) -> None:
        self.symbols = ir.SymbolTable(module.operation)
        self.end = ir.InsertionPoint(module.body)
        self.names: dict[str, str] = {}

    def outline(self, group: Group) -> None:
        """Replaces the group by a call of its function."""
        operands, results = list(group.operands()), group.results()
        kernel = self._function(group, operands, results)
        last = group.members[-1]
        with ir.InsertionPoint(last), last.location:
            call = func.CallOp([value.type for value in results], kernel, operands)
        for old, new in zip(results, call.results, strict=True):
            old.replace_all_uses_with(new)
        for op in reversed(group.members):
            op.erase()

    def _function(self, group: Group, operands: list[ir.Value], results: list[ir.Value]) -> str:
        """The name of a function that computes the group."""
        types = [value.type for value in operands], [value.type for value in results]
        with self.end, group.members[-1].location:
            function = func.FuncOp("kernel", types, visibility="private")
        function.attributes[KIND] = ir.StringAttr.get(group.kind)
        block = function.add_entry_block()
        known = dict(zip(operands, block.arguments, strict=True))
        with ir.InsertionPoint(block):
            for op in group.with_repeated():
                _clone(op, known)
            with group.members[-1].location:
                func.ReturnOp([known[value] for value in results])
        text = str(function)
        if text in self.names:
            function.operation.erase()
        else:
            self.names[text] = self._free_name(group.kind)
            function.attributes["sym_name"] = ir.StringAttr.get(self.names[text])
            self.symbols.insert(function)
        return self.names[text]

    def _free_name(self, kind: str) -> str:
        number = 0
        while f"{kind}_{number}" in self.symbols:
            number += 1
        return f"{kind}_{number}"


def _clone(op: ir.Operation, known: dict[ir.Value, ir.Value]) -> None:
    """Clones `op` with what `known` says in the place of its operands, and adds its results."""
    clone = op.clone()
    for inner in (clone.operation, *walk(clone.operation)):
        for number, operand in enumerate(inner.operands):
            inner.operands[number] = known.get(operand, operand)
    known.update(zip(op.results, clone.results, strict=True))


def _erase_unused(block: ir.Block) -> None:
    """Erases constants and empty tensors that kernels have of their own now."""
    for op in reversed([op.operation for op in block]):
        is_used = any(True for result in op.results for _ in result.uses)
        if is_repeatable(op) and not is_used:
            op.erase()
