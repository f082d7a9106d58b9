"""`outline-experts`: makes kernels of layers over experts with packed weights."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, TypeAlias

from torch_mlir import ir

from llmc.dialects import GroupedExpertLinearOp, PackedExpertLinearOp
from llmc.dialects.index_notation import part, size
from llmc.pipelines.kernels.marks import name_result
from llmc.pipelines.kernels.panel_linear import panel_linear
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.expert_rows import (
    element,
    for_each_group,
    for_each_row,
    without_padding,
)
from llmc.pipelines.rewriting.kernel_functions import (
    PANEL_EXPERT_MATMUL,
    PANEL_EXPERT_MATVEC,
    KernelFunctions,
)
from llmc.pipelines.rewriting.kernel_operands import KernelOperands
from llmc.pipelines.rewriting.linear_epilogue import (
    Epilogue,
    find_epilogue_of_panels,
    follow,
    no_epilogue,
)
from llmc.pipelines.rewriting.linear_prologue import read_lengths_before
from llmc.pipelines.walks import find

Layer: TypeAlias = PackedExpertLinearOp | GroupedExpertLinearOp
Multiply: TypeAlias = Callable[[ir.Value, ir.Value], ir.Value]
"""What the layer makes of rows by the matrix of an expert."""


@dataclass(frozen=True)
class OutlineExperts(Pass):
    """Turns layers over experts into calls of kernels that schedules work on.

    In a loop stands what `outline-linears` makes of one matrix: the product, and the elementwise
    operations that follow, be they on two halves of the outputs. `llmc.packed_expert_linear` on a
    static number of rows is a `panel_expert_matvec`, a loop over rows;
    `llmc.grouped_expert_linear` is a `panel_expert_matmul`, a loop over experts, of which there are
    several.
    """

    name: ClassVar[str] = "outline-experts"

    def apply(self, module: ir.Module) -> None:
        """Rewrites layer by layer."""
        kernels = KernelFunctions(module)
        for op in find(module.operation, "llmc.packed_expert_linear"):
            if op.opview.out.type.has_static_shape:
                _outline(op.opview, PANEL_EXPERT_MATVEC, _rows_of_token, kernels)
        for op in find(module.operation, "llmc.grouped_expert_linear"):
            if op.opview.weight.type.shape[0] > 1:
                read_lengths_before(op)
                _outline(op.opview, PANEL_EXPERT_MATMUL, _groups, kernels)


def _outline(
    layer: Layer, kind: str, loop: Callable[..., list[ir.Value]], kernels: KernelFunctions
) -> None:
    """Replaces a layer, and what follows it in its kernel, by a call."""
    epilogue = _epilogue(layer)
    chosen = layer.expert if isinstance(layer, PackedExpertLinearOp) else layer.first
    _, panels, _, columns = layer.weight.type.shape
    strands = len(epilogue.strands)
    element_type = epilogue.result.type.element_type
    with ir.InsertionPoint(epilogue.end), epilogue.end.location:
        operands = KernelOperands()
        x, numbers, weight = map(operands.read, (layer.x, chosen, layer.weight))

        def build(*arguments: ir.Value) -> list[ir.Value]:
            matrices = weight(arguments)

            def multiply(rows: ir.Value, expert: ir.Value) -> ir.Value:
                products = panel_linear(
                    rows, [element(matrices, expert)], layer.out.type.element_type, parts=strands
                )
                result = follow(epilogue, products, [])
                name_result(result)
                return result

            row = ir.RankedTensorType.get([panels // strands, columns], element_type)
            return loop(layer, x(arguments), numbers(arguments), multiply, row)

        (y,) = kernels.call(kind, operands.values, build)
        epilogue.result.replace_all_uses_with(without_padding(y, epilogue.result.type))
    epilogue.erase()


def _epilogue(layer: Layer) -> Epilogue:
    """What follows the layer in its kernel: it reads nothing beside, and whole panels."""
    _, panels, _, columns = layer.weight.type.shape
    found = find_epilogue_of_panels(layer.out, panels, columns, fewest=1)
    return no_epilogue(layer.out) if found.others() else found


def _rows_of_token(
    layer: PackedExpertLinearOp,
    x: ir.Value,
    expert: ir.Value,
    multiply: Multiply,
    row: ir.RankedTensorType,
) -> list[ir.Value]:
    def rows_of(token: ir.Value) -> ir.Value:
        return part(x, token, 1)

    count = layer.out.type.shape[0]
    return for_each_row(expert, count, layer.top_k.value, row, rows_of, multiply)


def _groups(
    layer: GroupedExpertLinearOp,
    x: ir.Value,
    first: ir.Value,
    multiply: Multiply,
    row: ir.RankedTensorType,
) -> list[ir.Value]:
    experts = layer.weight.type.shape[0]
    return for_each_group(first, experts, size(x, 0), row, partial(part, x), multiply)
