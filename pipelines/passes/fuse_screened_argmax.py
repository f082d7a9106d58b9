"""`fuse-screened-argmax`: computes those panels of rows alone that may hold the largest number."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import func

from llmc.dialects import ArgmaxOp, ScreenedArgmaxOp
from llmc.dialects.divisor import divisor
from llmc.dialects.index_notation import size
from llmc.pipelines.kernels.best_of_row import part_types
from llmc.pipelines.kernels.counters import Counters
from llmc.pipelines.kernels.kernel import dispatch, module_around
from llmc.pipelines.kernels.refined_argmax import refined_argmax
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.kernel_functions import call_of_row
from llmc.pipelines.rewriting.operations import is_used
from llmc.pipelines.rewriting.scheduled_kernel import (
    cuts_rows,
    scheduled_kernel,
    split_arguments,
    workgroups_of_row,
)
from llmc.pipelines.walks import find

# Each computes the first panel again: few do not take long to, and yet all threads have work.
_WORKGROUPS = 16


@dataclass(frozen=True)
class FuseScreenedArgmax(Pass):
    """Makes one kernel of `llmc.screened_argmax` and of the one that computes `exact`.

    That must compute a panel of a row in each of its workgroups; the new one computes only the
    panels that may hold the largest number. In other cases the operation becomes `llmc.argmax`. The
    search begins where `rough` is largest: by an `llmc.argmax`, too, which `fuse-argmax` makes part
    of the kernel that computes that.
    """

    name: ClassVar[str] = "fuse-screened-argmax"

    def apply(self, module: ir.Module) -> None:
        """Rewrites operation by operation."""
        module.context.allow_unregistered_dialects = True
        symbols = ir.SymbolTable(module.operation)
        for op in find(module.operation, "llmc.screened_argmax"):
            exact, rough = op.operands[0].owner, op.operands[1].owner
            call = _call_of_panels(op.opview, symbols)
            with ir.InsertionPoint(op), op.location:
                best = (
                    ArgmaxOp(op.operands[0], op.results[0].type).out
                    if call is None
                    else _search(op.opview, call, symbols)
                )
            op.results[0].replace_all_uses_with(best)
            op.erase()
            for unread in (exact, rough):
                _erase_unused(unread)


def _call_of_panels(op: ScreenedArgmaxOp, symbols: ir.SymbolTable) -> func.CallOp | None:
    """The call that computes the exact rows, if its kernel can compute single panels of them."""
    call = call_of_row(op.exact, symbols)
    if call is None:
        return None
    type_, kernel = call.results[0].type, symbols[call.callee.value]
    one, panels, *_ = type_.shape
    cuts = panels == workgroups_of_row(kernel) if one == 1 else cuts_rows(kernel)
    is_f32 = isinstance(type_.element_type, ir.F32Type)
    is_alone = len(list(op.exact.uses)) == 1
    return call if cuts and is_f32 and is_alone else None


def _search(op: ScreenedArgmaxOp, call: func.CallOp, symbols: ir.SymbolTable) -> ir.Value:
    """Dispatches the kernel that finds where the largest number is."""
    rows = call.results[0].type
    workgroups = divisor(rows.shape[1], _WORKGROUPS)
    scales = [] if op.scales is None else [op.scales]
    exact = scheduled_kernel(symbols[call.callee.value])
    kernel = refined_argmax(exact, rows, workgroups, is_quantized=bool(scales))
    tensors, scalars = split_arguments(list(call.operands))
    parts = part_types(rows.shape[0], workgroups, rows.element_type)
    results = [op.out.type, *parts, rows]
    first = ArgmaxOp(op.rough, op.out.type).out
    counters = Counters(module_around(op.operation), "refined_argmax.done", 1, 32)
    best, *_, done = dispatch(
        kernel,
        [*tensors, op.rough, first, op.values, op.metric, op.spread, *scales],
        results,
        [size(op.rough, 0)] * len(results) if rows.is_dynamic_dim(0) else [],
        scalars=scalars,
        updated=[counters.load()],
    )
    counters.store(done)
    return best


def _erase_unused(op: ir.Operation | ir.Block) -> None:
    """Erases what nothing uses, and then what that alone used, up to the call of a kernel."""
    if isinstance(op, ir.Block) or is_used(op.operation):
        return
    if op.name in ("tensor.collapse_shape", "func.call"):
        makers = [operand.owner for operand in op.operands]
        op.operation.erase()
        for maker in makers:
            _erase_unused(maker)
