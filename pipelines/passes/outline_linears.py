"""`outline-linears`: makes kernels of linear layers with packed weights and what surrounds them."""

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from torch_mlir import ir

from llmc.dialects import PackedLinearOp, RMSNormOp
from llmc.dialects.index_notation import sizes
from llmc.dialects.quantize import in_rows
from llmc.pipelines.kernels.panel_linear import panel_linear
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.kernel_functions import KernelFunctions
from llmc.pipelines.rewriting.kernel_operands import (
    KernelOperands,
    Reader,
    as_matrix,
    as_rows,
    from_panels,
)
from llmc.pipelines.rewriting.linear_epilogue import find_epilogue_of_panels, follow, is_screened
from llmc.pipelines.rewriting.linear_prologue import norm_before, read_lengths_before_norm
from llmc.pipelines.rewriting.operations import made_by
from llmc.pipelines.walks import find

MATVEC, MATMUL = "panel_matvec", "panel_matmul"
PANEL = "single_panel"

_LONGEST = 7168
"""The longest row that, normalised, fits on a workgroup's stack."""


@dataclass(frozen=True)
class OutlineLinears(Pass):
    """Turns `llmc.packed_linear` operations into calls of kernels, which schedules work on.

    A kernel computes `[T, P, J]`: the product, and the elementwise operations that follow, be they
    on two halves of the outputs. For one row it is a `panel_matvec`, which also computes the norm
    of the row where the layer alone reads it, and else a `panel_matmul`, for any number of rows.
    One row of which `llmc.screened_argmax` needs a few panels is a `single_panel`. A weight that
    `llmc.join_float` makes is joined in the kernel. Kernels that are alike share one function. A
    weight of a single panel makes none for several rows. Changes numerics where there is a norm:
    the order of a sum.
    """

    name: ClassVar[str] = "outline-linears"

    def apply(self, module: ir.Module) -> None:
        """Replaces layer by layer."""
        kernels = KernelFunctions(module)
        for op in find(module.operation, "llmc.packed_linear"):
            if not _makes_grid(op.opview):
                continue
            read_lengths_before_norm(op.opview)
            layer = _Layer(op.opview)
            norm, epilogue = layer.norm, layer.epilogue
            with ir.InsertionPoint(epilogue.end), epilogue.end.location:
                epilogue.result.replace_all_uses_with(layer.call(kernels))
            epilogue.erase()
            if norm is not None:
                norm.operation.erase()


class _Layer:
    """A layer with its norm and epilogue."""

    def __init__(self, linear: PackedLinearOp) -> None:
        self.linear = linear
        self.panels, self.inputs, self.columns = linear.weight.type.shape
        self.outputs = linear.out.type.shape[-1]
        self.is_one_row = _is_one_row(linear)
        self.is_whole = self.panels * self.columns == self.outputs
        # Those that read a weight in parts all read the row that another kernel has normalised: so
        # their numbers are the same, whether a layer or a screened search of its best reads it.
        norms = self.is_one_row and self.inputs <= _LONGEST and not _is_joined(linear.weight)
        self.norm = norm_before(linear) if norms else None
        self.epilogue = find_epilogue_of_panels(linear.out, self.panels, self.columns)

    def call(self, kernels: KernelFunctions) -> ir.Value:
        """Calls, here, a kernel; returns what takes the place of the epilogue's result."""
        operands = KernelOperands()
        rows = self.linear.x if self.norm is None else self.norm.x
        x = operands.read(as_matrix(rows, dynamic=not self.is_one_row))
        scale = self._scale(operands)
        weight = [operands.read(bits) for bits in _bits(self.linear.weight)]
        bias = self._bias(operands)
        others = [operands.read(self._panels_of(value)) for value in self.epilogue.others()]

        def build(*arguments: ir.Value) -> list[ir.Value]:
            row = x(arguments)
            if self.norm is not None:
                row = _normalised(row, self.norm, scale and scale(arguments))
            strands = panel_linear(
                row,
                [read(arguments) for read in weight],
                self.linear.out.type.element_type,
                bias and bias(arguments),
                len(self.epilogue.strands),
            )
            return [follow(self.epilogue, strands, [read(arguments) for read in others])]

        (y,) = kernels.call(self._kind, operands.values, build)
        outside = None if self.is_whole else self.linear.bias
        leading = sizes(self.linear.x)[:-1]
        return from_panels(y, leading, self.outputs, outside)

    @property
    def _kind(self) -> str:
        if not self.is_one_row:
            return MATMUL
        return PANEL if is_screened(self.epilogue.result) else MATVEC

    def _scale(self, operands: KernelOperands) -> Reader | None:
        """The weight of the norm, if it has one."""
        if self.norm is None or self.norm.weight is None:
            return None
        return operands.read(self.norm.weight)

    def _bias(self, operands: KernelOperands) -> Reader | None:
        """The bias `[P, J]`; None where there is none, or it is added outside."""
        if self.linear.bias is None or not self.is_whole:
            return None
        return operands.read(self.linear.bias, lambda bias: in_rows(bias, self.columns))

    def _panels_of(self, value: ir.Value) -> ir.Value:
        """`value [..., N]` as `[T, N/J, J]`."""
        return as_rows(value, self.columns, dynamic=not self.is_one_row)


def _makes_grid(linear: PackedLinearOp) -> bool:
    """Whether there is something to distribute: panels, or a row's columns of a single one."""
    panels, _, columns = linear.weight.type.shape
    return panels > 1 or (_is_one_row(linear) and columns > 1)


def _bits(weight: ir.Value) -> list[ir.Value]:
    """What a kernel reads of `weight`: that, or the parts of its numbers that are joined in it."""
    return list(weight.owner.operands) if _is_joined(weight) else [weight]


def _is_joined(weight: ir.Value) -> bool:
    """Whether the numbers of `weight` are joined from parts."""
    return made_by(weight, "llmc.join_float") is not None


def _is_one_row(linear: PackedLinearOp) -> bool:
    return prod(linear.x.type.shape[:-1]) == 1


def _normalised(row: ir.Value, norm: RMSNormOp, weight: ir.Value | None) -> ir.Value:
    return RMSNormOp(row, norm.epsilon, norm.offset, row.type, weight=weight).out
