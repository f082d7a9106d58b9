"""`outline-quantized-linears`: makes kernels of quantised linear layers and what surrounds them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import tensor

from llmc.dialects import PackedQuantizedLinearOp, PlaneLinearOp
from llmc.dialects.index_notation import collapse, expand, sizes
from llmc.dialects.quantize import in_rows
from llmc.pipelines.kernels.quantized_linear import Norm, QuantizedRows
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.kernel_functions import KernelFunctions
from llmc.pipelines.rewriting.kernel_operands import KernelOperands, Reader, as_rows, from_panels
from llmc.pipelines.rewriting.linear_epilogue import is_screened
from llmc.pipelines.rewriting.linear_prologue import norm_before, read_lengths_before_norm
from llmc.pipelines.rewriting.operations import is_used
from llmc.pipelines.rewriting.quantized_layer import QuantizedLayer, as_halves
from llmc.pipelines.schedules.workgroups import panels_of_workgroup
from llmc.pipelines.targets.parse import parse_cpu
from llmc.pipelines.type_bytes import bytes_of
from llmc.pipelines.walks import find

MATVEC, MATMUL, QUANTIZE = "quantized_matvec", "quantized_matmul", "quantize_rows"
PANEL = "quantized_panel"

_SHARING = ("llmc.plane_linear", "llmc.quantize_rows")
"""The operations that may share the rows of a product by bit planes, quantised once for all."""

LONGEST = 32768
"""The longest row that a workgroup quantises for itself: with its scales it takes 40 KiB."""

_MOST_WORKGROUPS = 160
"""How many workgroups may each quantise the row.

That takes one 0.15 us for 1,024 numbers, and so a hundredth of what it takes to read its panels,
unless these are few because no larger number of them comes out even. Where the row is quantised
before, the layer does not persist: how many rows are quantised is not static there.
"""

Quantized = Callable[[Sequence[ir.Value]], QuantizedRows]
"""Gives quantised rows within a kernel, from the kernel's arguments."""


@dataclass(frozen=True)
class OutlineQuantizedLinears(Pass):
    """Turns quantised linear layers on panels into calls of kernels that schedules work on.

    One row is one kernel, `quantized_matvec`: the norm of the row where the layer alone reads it,
    its quantisation, the product, and the elementwise operations that follow, be they on two halves
    of the outputs. Of several rows norm and quantisation are a kernel of their own,
    `quantize_rows`, and the rest is a `quantized_matmul`. One row has a `quantize_rows` of its own
    too where it is very long, before a weight that very many workgroups share, as some vocabularies
    have, and where products by bit planes share it. A product of which `llmc.screened_argmax` needs
    a few panels is a `quantized_panel`. Layers of one panel are left alone: there is nothing to
    distribute.
    Changes numerics where there is a norm: the order of a sum.
    """

    name: ClassVar[str] = "outline-quantized-linears"
    target: str = "cpu"

    def apply(self, module: ir.Module) -> None:
        """Rewrites layer by layer."""
        signed = parse_cpu(self.target).byte_instruction.signed
        outliner = _Outliner(KernelFunctions(module), signed)
        for op in find(module.operation, "llmc.packed_quantized_linear", "llmc.plane_linear"):
            panels, *_ = op.operands[1].type.shape
            if panels > 1:
                outliner.outline(op.opview)


class _Outliner:
    """Makes kernels; several layers that read the same rows share their quantisation."""

    def __init__(self, kernels: KernelFunctions, signed: bool) -> None:
        self.kernels, self.signed = kernels, signed
        self.quantized: dict[tuple[object, ...], list[ir.Value]] = {}

    def outline(self, linear: PackedQuantizedLinearOp | PlaneLinearOp) -> None:
        """Replaces the layer, and what goes with it, by calls."""
        read_lengths_before_norm(linear)
        layer = _Layer(linear, self.signed)
        norm, epilogue = layer.norm, layer.epilogue
        with ir.InsertionPoint(epilogue.end), epilogue.end.location:
            operands = KernelOperands()
            kind, rows = self._rows(layer, operands)
            (y,) = self.kernels.call(kind, operands.values, layer.build(rows, operands))
            epilogue.result.replace_all_uses_with(layer.shaped(y))
        epilogue.erase()
        if norm is not None and not is_used(norm.operation):
            norm.operation.erase()

    def _rows(self, layer: "_Layer", operands: KernelOperands) -> tuple[str, Quantized]:
        """The kind of kernel, and how it reads its quantised rows."""
        key = layer.quantization
        if layer.quantizes_within and key not in self.quantized:
            return MATVEC, layer.quantized(operands)
        if key not in self.quantized:
            # Here, for what follows the layer may end behind another that reads these rows.
            with ir.InsertionPoint(layer.operation):
                self.quantized[key] = self._quantize(layer)
                layer.read_quantized(self.quantized[key])
        readers = [operands.read(layer.of_rows(value)) for value in self.quantized[key]]
        return layer.kind, lambda arguments: QuantizedRows(*(read(arguments) for read in readers))

    def _quantize(self, layer: "_Layer") -> list[ir.Value]:
        """Calls a kernel that quantises the rows of `layer`."""
        operands = KernelOperands()
        rows = layer.quantized(operands)

        def build(*arguments: ir.Value) -> list[ir.Value]:
            made = rows(arguments)
            return made.tensors

        return self.kernels.call(QUANTIZE, operands.values, build)


class _Layer(QuantizedLayer):
    """A layer with its norm and epilogue, and what a kernel of it computes."""

    def __init__(self, linear: PackedQuantizedLinearOp | PlaneLinearOp, signed: bool) -> None:
        super().__init__(linear, signed)
        self.operation = linear.operation
        self.bias = None if isinstance(linear, PlaneLinearOp) else linear.bias
        self.norm = norm_before(linear, _SHARING if self.in_planes else ())
        self.given = linear.x
        self.x = linear.x if self.norm is None else self.norm.x
        *leading, inputs = self.x.type.shape
        self.is_one_row = prod(leading) == 1
        shares = self.in_planes and len(list(linear.x.uses)) > 1
        is_small = inputs <= LONGEST and self._workgroups() <= _MOST_WORKGROUPS
        self.quantizes_within = self.is_one_row and is_small and not shares

    def _workgroups(self) -> int:
        """How many there are at least, of whatever CPU."""
        size = sum(bytes_of(weight.type) for weight in self.weights)
        return self.panels // panels_of_workgroup(self.panels, size, cores=1)

    @property
    def kind(self) -> str:
        """The kind of the kernel, where its rows are quantised before."""
        if is_screened(self.epilogue.result):
            return PANEL
        return MATVEC if self.is_one_row else MATMUL

    @property
    def quantization(self) -> tuple[object, ...]:
        """What layers have in common that share their quantised rows."""
        norm = self.norm and self.norm.out
        return self.x, norm, self.format.values, self.format.has_minimum, self.offset

    def quantized(self, operands: KernelOperands) -> Quantized:
        """The rows, normalised and quantised within the kernel."""
        rows = as_rows(self.x, self.format.values, dynamic=not self.quantizes_within)
        x, norm = operands.read(rows), self.norm
        if norm is None:
            return lambda arguments: self.quantize(x(arguments), None)
        weight = None if norm.weight is None else operands.read(norm.weight)

        def normed(arguments: Sequence[ir.Value]) -> QuantizedRows:
            factors = None if weight is None else weight(arguments)
            if factors is not None:
                factors = in_rows(factors, self.format.values)
            return self.quantize(x(arguments), Norm(norm.epsilon.value, factors, norm.offset.value))

        return normed

    def of_rows(self, quantized: ir.Value) -> ir.Value:
        """What another kernel made of the rows, as many as are known of."""
        if not self.is_one_row:
            return quantized
        _, *shape = quantized.type.shape
        type_ = ir.RankedTensorType.get([1, *shape], quantized.type.element_type)
        return tensor.cast(type_, quantized)

    def read_quantized(self, made: Sequence[ir.Value]) -> None:
        """Replaces `llmc.quantize_rows` of the layer's rows by what a kernel `made` of them."""
        for use in list(self.given.uses):
            op = use.owner.operation
            if op.name == "llmc.quantize_rows" and op.opview.group.value == self.format.values:
                leading = sizes(self.given)[:-1]
                values, scales = (self.of_rows(value) for value in made[:2])
                rows = collapse(values, [1, 2]), scales
                for old, new in zip(op.results, rows, strict=True):
                    old.replace_all_uses_with(expand(new, [leading, [new.type.shape[1]]]))
                op.erase()

    def build(self, rows: Quantized, operands: KernelOperands) -> Callable[..., list[ir.Value]]:
        """What the kernel computes: the product, the bias and the epilogue."""
        stored = [operands.read(weight) for weight in self.weights]
        halves = operands.read(self.weights[0], as_halves)
        bias = self._bias(operands)
        others = [operands.read(self._panels_of(value)) for value in self.epilogue.others()]

        def build(*arguments: ir.Value) -> list[ir.Value]:
            return [
                self.compute(
                    rows(arguments),
                    [read(arguments) for read in stored],
                    halves(arguments),
                    bias and bias(arguments),
                    [read(arguments) for read in others],
                )
            ]

        return build

    def shaped(self, y: ir.Value) -> ir.Value:
        """The kernel's result `[T, P, J]` as the layer's, or the epilogue's."""
        outside = None if self.is_whole else self.bias
        return from_panels(y, sizes(self.x)[:-1], self.outputs, outside)

    def _bias(self, operands: KernelOperands) -> Reader | None:
        """The bias `[P, J]`; None where there is none, or it is added outside."""
        if self.bias is None or not self.is_whole:
            return None
        return operands.read(self.bias, self.bias_panels)

    def _panels_of(self, value: ir.Value) -> ir.Value:
        """`value [..., N]` as `[T, P, J]`."""
        return as_rows(value, self.columns, dynamic=not self.is_one_row)
