"""`outline-experts`: makes kernels of layers over experts with packed weights."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import arith

from llmc.dialects import PackedExpertLinearOp
from llmc.dialects.index_notation import index
from llmc.pipelines.kernels.panel_linear import panel_linear
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.passes.expert_rows import (
    Rows,
    element,
    for_each,
    number_at,
    part,
    without_padding,
)
from llmc.pipelines.passes.kernel_functions import PANEL_EXPERTS, KernelFunctions
from llmc.pipelines.passes.kernel_operands import KernelOperands
from llmc.pipelines.passes.linear_epilogue import Epilogue, find_epilogue, follow
from llmc.pipelines.schedules.handles import name_result
from llmc.pipelines.walks import find


@dataclass(frozen=True)
class OutlineExperts(Pass):
    """Turns `llmc.packed_expert_linear` into calls of kernels that schedules work on.

    A `panel_expert_matvec` is a loop over the rows of one token, in which stands what
    `outline-linears` makes of a row and one matrix: the product by that of the row's expert, and
    the elementwise operations that follow, be they on two halves of the outputs. Layers on a
    dynamic number of rows are left alone.
    """

    name: ClassVar[str] = "outline-experts"

    def apply(self, module: ir.Module) -> None:
        """Rewrites layer by layer."""
        kernels = KernelFunctions(module)
        for op in find(module.operation, "llmc.packed_expert_linear"):
            if op.opview.out.type.has_static_shape:
                _outline(op.opview, kernels)


def _outline(layer: PackedExpertLinearOp, kernels: KernelFunctions) -> None:
    epilogue = _epilogue(layer)
    with ir.InsertionPoint(epilogue.end), epilogue.end.location:
        (y,) = _call(layer, epilogue, kernels)
        epilogue.result.replace_all_uses_with(without_padding(y, epilogue.result.type))
    epilogue.erase()


def _epilogue(layer: PackedExpertLinearOp) -> Epilogue:
    """What follows the layer in its kernel: it reads nothing beside, and whole panels."""
    _, panels, _, columns = layer.weight.type.shape
    found = find_epilogue(layer.out)
    strand, left = divmod(panels, len(found.strands))
    is_whole = panels * columns == layer.out.type.shape[1]
    fits = is_whole and strand and not left and not found.others()
    return found if fits else Epilogue(layer.out, (layer.out,), ())


def _call(
    layer: PackedExpertLinearOp, epilogue: Epilogue, kernels: KernelFunctions
) -> list[ir.Value]:
    """Calls, here, a kernel for layer and epilogue, which gives `[R, P, J]`."""
    operands, strands = KernelOperands(), len(epilogue.strands)
    x, expert, weight = map(operands.read, (layer.x, layer.expert, layer.weight))
    _, panels, _, columns = layer.weight.type.shape
    count = layer.out.type.shape[0]

    def build(*arguments: ir.Value) -> list[ir.Value]:
        rows, chosen, matrices = (read(arguments) for read in (x, expert, weight))

        def compute(row: ir.Value) -> Rows:
            token = arith.divui(row, index(layer.top_k.value))
            matrix = element(matrices, number_at(chosen, row))
            products = panel_linear(part(rows, token, 1), [matrix], None, strands)
            result = follow(epilogue, products, [])
            name_result(result)
            return result, row, 1

        return for_each(count, [count, panels // strands, columns], compute)

    return kernels.call(PANEL_EXPERTS, operands.values, build)
