"""`fuse-argmax`: lets the kernel that computes a row of logits find the best token of it."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import func

from llmc.dialects import ArgmaxOp
from llmc.pipelines.clones import clone_with
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.functions import set_type
from llmc.pipelines.rewriting.kernel_functions import call_of_row
from llmc.pipelines.rewriting.scheduled_kernel import workgroups_of_row
from llmc.pipelines.walks import find


@dataclass(frozen=True)
class FuseArgmax(Pass):
    """Moves `llmc.argmax` of what a scheduled kernel returns into the function of the kernel.

    It must be one row, which the kernel's workgroups cut into equal parts: each of them finds the
    best of its own, where else a dispatch would wait for all, and one core look through the row.
    """

    name: ClassVar[str] = "fuse-argmax"

    def apply(self, module: ir.Module) -> None:
        """Rewrites operation by operation; a kernel that others call stays beside the new one."""
        symbols = ir.SymbolTable(module.operation)
        for op in find(module.operation, "llmc.argmax"):
            call = _call_of_kernel(op, symbols)
            if call is not None:
                _fuse(op, call, symbols)


def _call_of_kernel(argmax: ir.Operation, symbols: ir.SymbolTable) -> func.CallOp | None:
    """The call that gives the one row of `argmax`, if of a kernel that can find its best."""
    call = call_of_row(argmax.operands[0], symbols)
    if call is None or workgroups_of_row(symbols[call.callee.value]) is None:
        return None
    return call


def _fuse(argmax: ir.Operation, call: func.CallOp, symbols: ir.SymbolTable) -> None:
    name = _kernel_with_best(symbols[call.callee.value], argmax, symbols)
    with ir.InsertionPoint(call), call.location:
        types = [call.results[0].type, argmax.results[0].type]
        row, best = func.CallOp(types, name, list(call.operands)).results
    argmax.results[0].replace_all_uses_with(best)
    argmax.erase()
    call.results[0].replace_all_uses_with(row)
    call.operation.erase()


def _kernel_with_best(kernel: func.FuncOp, argmax: ir.Operation, symbols: ir.SymbolTable) -> str:
    """The name of a kernel that returns what `kernel` does and then what `argmax` does."""
    name = f"{kernel.sym_name.value}_best"
    if name in symbols:
        return name
    extended = kernel.operation.clone(ip=ir.InsertionPoint(kernel)).opview
    return_ = extended.entry_block.operations[-1]
    (row,) = return_.operands
    with ir.InsertionPoint(return_), argmax.location:
        reshape = argmax.operands[0].owner
        known = {reshape.operands[0]: row}
        clone_with(reshape, known)
        best = ArgmaxOp(known[reshape.results[0]], argmax.results[0].type).out
        func.ReturnOp([row, best])
    return_.operation.erase()
    set_type(extended, [row.type, best.type])
    extended.attributes["sym_name"] = ir.StringAttr.get(name)
    symbols.insert(extended)
    return name
