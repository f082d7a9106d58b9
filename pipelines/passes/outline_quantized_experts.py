"""`outline-quantized-experts`: makes kernels of quantised layers over experts."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from torch_mlir import ir
from torch_mlir.extras import types as T

from llmc.dialects import GroupedQuantizedExpertLinearOp, PackedQuantizedExpertLinearOp, TakeRowsOp
from llmc.dialects.index_notation import part, size
from llmc.pipelines.kernels.quantized_linear import QuantizedRows
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.passes.outline_quantized_linears import LONGEST, QUANTIZE
from llmc.pipelines.rewriting.expert_rows import (
    element,
    for_each_group,
    for_each_row,
    without_padding,
)
from llmc.pipelines.rewriting.kernel_functions import EXPERT_MATMUL, EXPERT_MATVEC, KernelFunctions
from llmc.pipelines.rewriting.kernel_operands import KernelOperands, as_rows
from llmc.pipelines.rewriting.linear_prologue import read_lengths_before
from llmc.pipelines.rewriting.operations import made_by
from llmc.pipelines.rewriting.quantized_layer import QuantizedLayer, as_halves
from llmc.pipelines.targets.parse import parse_cpu
from llmc.pipelines.walks import find

Linear: TypeAlias = PackedQuantizedExpertLinearOp | GroupedQuantizedExpertLinearOp
Multiply: TypeAlias = Callable[[QuantizedRows, ir.Value], ir.Value]
"""What the layer makes of rows by the matrix of an expert."""
Build: TypeAlias = Callable[..., list[ir.Value]]


@dataclass(frozen=True)
class OutlineQuantizedExperts(Pass):
    """Turns quantised layers over experts into calls of kernels that schedules work on.

    A kernel is a loop over rows, or over experts, in which stands what `outline-quantized-linears`
    makes of one matrix. `llmc.packed_quantized_expert_linear` on a static number of rows is a
    `quantized_expert_matvec`, which quantises each row too. `llmc.grouped_quantized_expert_linear`
    is a `quantized_expert_matmul` on rows that a `quantize_rows` has quantised, before they are put
    in the order of their groups. Layers of one panel, groups of one expert, and rows longer than a
    workgroup's stack holds, are left alone.
    """

    name: ClassVar[str] = "outline-quantized-experts"
    target: str = "cpu"

    def apply(self, module: ir.Module) -> None:
        """Rewrites layer by layer."""
        signed = parse_cpu(self.target).byte_instruction.signed
        kernels = KernelFunctions(module)
        for op in find(module.operation, *_LAYERS):
            read_lengths_before(op, _LAYERS[op.name].per_row)
            _, panels, *_ = op.opview.weight.type.shape
            if panels > 1 and (layer := _LAYERS[op.name](op.opview, signed)).has_kernel:
                _outline(layer, kernels)


class _Layer(QuantizedLayer, ABC):
    """A layer over experts. Operand `per_row` has as many rows as the result."""

    kind: ClassVar[str]
    per_row: ClassVar[int]

    def __init__(self, linear: Linear, signed: bool) -> None:
        super().__init__(linear, signed)
        self.linear = linear

    @property
    def has_kernel(self) -> bool:
        """Whether it can be outlined."""
        return True

    @property
    def row(self) -> ir.RankedTensorType:
        """The type of a row of the kernel's result."""
        return ir.RankedTensorType.get([self.strand, self.columns], T.f32())

    @abstractmethod
    def body(self, operands: KernelOperands, kernels: KernelFunctions) -> Build:
        """What the kernel computes of its operands, which are added here: `[R, P, J]`."""

    def matrices(self, operands: KernelOperands) -> Callable[[Sequence[ir.Value]], Multiply]:
        """Gives, in a kernel of these arguments, what the layer makes of rows."""
        stored = operands.read(self.linear.weight)
        halves = operands.read(self.linear.weight, as_halves)

        def reading(arguments: Sequence[ir.Value]) -> Multiply:
            def multiply(rows: QuantizedRows, expert: ir.Value) -> ir.Value:
                own, floats = (element(read(arguments), expert) for read in (stored, halves))
                return self.compute(rows, [own], floats)

            return multiply

        return reading


class _OneToken(_Layer):
    """A layer on the rows of one token, each of which reads a matrix of its own."""

    kind, per_row = EXPERT_MATVEC, 1

    @property
    def has_kernel(self) -> bool:
        """Whether the rows are static, and each has room on a workgroup's stack."""
        type_ = self.linear.x.type
        return type_.has_static_shape and type_.shape[1] <= LONGEST

    def body(self, operands: KernelOperands, _kernels: KernelFunctions) -> Build:
        """A loop over rows."""
        x = operands.read(as_rows(self.linear.x, self.format.values))
        expert = operands.read(self.linear.expert)
        multiply = self.matrices(operands)
        count, top_k = self.linear.out.type.shape[0], self.linear.top_k.value

        def build(*arguments: ir.Value) -> list[ir.Value]:
            rows = x(arguments)

            def rows_of(token: ir.Value) -> QuantizedRows:
                return self.quantize(part(rows, token, 1), None)

            chosen = expert(arguments)
            return for_each_row(chosen, count, top_k, self.row, rows_of, multiply(arguments))

        return build


class _Groups(_Layer):
    """A layer on rows that lie one expert's after another's."""

    kind, per_row = EXPERT_MATMUL, 0

    @property
    def has_kernel(self) -> bool:
        """Whether there are several experts to loop over."""
        return bool(self.linear.weight.type.shape[0] > 1)

    def body(self, operands: KernelOperands, kernels: KernelFunctions) -> Build:
        """A loop over experts."""
        readers = [operands.read(each) for each in self._quantized(kernels)]
        first = operands.read(self.linear.first)
        multiply = self.matrices(operands)
        experts, *_ = self.linear.weight.type.shape

        def build(*arguments: ir.Value) -> list[ir.Value]:
            rows, firsts = [read(arguments) for read in readers], first(arguments)

            def rows_of(start: ir.Value, count: ir.Value) -> QuantizedRows:
                return QuantizedRows(*(part(each, start, count) for each in rows))

            total = size(rows[0], 0)
            return for_each_group(firsts, experts, total, self.row, rows_of, multiply(arguments))

        return build

    def _quantized(self, kernels: KernelFunctions) -> list[ir.Value]:
        """The rows as `quantize_rows` makes them, each quantised before it is repeated."""
        x = self.linear.x
        taken = made_by(x, "llmc.take_rows")
        operands = KernelOperands()
        rows = as_rows(taken.operands[1] if taken else x, self.format.values, dynamic=True)
        read = operands.read(rows)

        def build(*arguments: ir.Value) -> list[ir.Value]:
            made = self.quantize(read(arguments), None)
            return made.tensors

        made = kernels.call(QUANTIZE, operands.values, build)
        return [_taken(taken.opview, each) for each in made] if taken else made


def _taken(as_in: TakeRowsOp, rows: ir.Value) -> ir.Value:
    """Those of `rows` that `as_in` takes of its own."""
    ids, (_, *extents) = as_in.ids, rows.type.shape
    type_ = ir.RankedTensorType.get([*ids.type.shape, *extents], rows.type.element_type)
    return TakeRowsOp(ids, rows, as_in.top_k, type_).out


_LAYERS: dict[str, type[_Layer]] = {
    "llmc.packed_quantized_expert_linear": _OneToken,
    "llmc.grouped_quantized_expert_linear": _Groups,
}


def _outline(layer: _Layer, kernels: KernelFunctions) -> None:
    """Replaces the layer, and what goes with it, by calls."""
    epilogue = layer.epilogue
    with ir.InsertionPoint(epilogue.end), epilogue.end.location:
        operands = KernelOperands()
        build = layer.body(operands, kernels)
        (y,) = kernels.call(layer.kind, operands.values, build)
        epilogue.result.replace_all_uses_with(without_padding(y, epilogue.result.type))
    epilogue.erase()
