"""A kernel to tune, taken out of a model's module."""

from collections.abc import Iterator
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import func
from torch_mlir.extras import types as T

from llmc.dialects import CachedAttentionOp, DecodeAttentionOp
from llmc.pipelines.kernels.attention_cuts import kernel_of_attention
from llmc.pipelines.kernels.kernel import under_view
from llmc.pipelines.passes.call_kernels import has_kernel
from llmc.pipelines.rewriting.alone import alone
from llmc.pipelines.rewriting.functions import calls_of, functions
from llmc.pipelines.rewriting.kernel_functions import kind_of
from llmc.pipelines.type_bytes import bytes_of
from llmc.pipelines.walks import find

_ATTENTION = CachedAttentionOp.OPERATION_NAME, DecodeAttentionOp.OPERATION_NAME


@dataclass(frozen=True)
class Subject:
    """A kernel of `module`, of the kind `kind`, before any schedule; attention is one operation.

    `same[n]` is the number of the first argument that is the same tensor as argument n, perhaps
    seen as another type. `layers` is how many layers an argument of type index chooses among, or 1.
    The kernel does not outlive `module`.
    """

    kind: str
    module: ir.Module
    kernel: func.FuncOp
    same: tuple[int, ...]
    layers: int

    @property
    def name(self) -> str:
        """The function's."""
        return str(self.kernel.sym_name.value)

    @property
    def attention(self) -> ir.OpView | None:
        """The operation that a kernel of attention is; None for another kernel."""
        first, *_ = self.kernel.entry_block
        return first if first.operation.name in _ATTENTION else None

    @property
    def weight_bytes(self) -> int:
        """The size of what it is given whole: the matrices of all layers."""
        types = [type_ for _, type_ in self.tensors()]
        return sum(bytes_of(type_) for type_ in types if type_.has_static_shape)

    @property
    def experts(self) -> int:
        """How many matrices of a layer a kernel over experts has, `[E, ...]` or `[L, E, ...]`."""
        weight = max((type_ for _, type_ in self.tensors() if type_.has_static_shape), key=bytes_of)
        return weight.shape[1 if T.index() in self.kernel.type.inputs else 0]

    def tensors(self) -> Iterator[tuple[int, ir.RankedTensorType]]:
        """Number and type of each argument that is a tensor of its own."""
        for number, type_ in enumerate(self.kernel.type.inputs):
            if isinstance(type_, ir.RankedTensorType) and self.same[number] == number:
                yield number, type_


def subjects(module: ir.Module) -> list[Subject]:
    """The kernels that `module` calls, those with the largest matrices first, and attention."""
    found = [
        Subject(kind, module, function, _same(calls[0]), _layers(function))
        for function in functions(module)
        if (kind := kind_of(function)) and (calls := calls_of(module, function))
    ]
    return [*sorted(found, key=lambda subject: -subject.weight_bytes), *_attentions(module)]


def _attentions(module: ir.Module) -> Iterator[Subject]:
    """The kinds of attention that kernels of ours compute, each once."""
    known = set()
    for op in find(module.operation, *_ATTENTION):
        kernel = alone(op)
        if has_kernel(op) and (text := str(kernel)) not in known:
            known.add(text)
            (function,) = functions(kernel)
            arguments = tuple(range(len(op.operands)))
            yield Subject(kernel_of_attention(op), kernel, function, arguments, layers=1)


def _same(call: func.CallOp) -> tuple[int, ...]:
    values = [under_view(operand) for operand in call.operands]
    return tuple(map(values.index, values))


def _layers(kernel: func.FuncOp) -> int:
    """How many layers there are to choose among: the extent that an index is an offset into."""
    arguments = {argument for argument in kernel.arguments if argument.type == T.index()}
    counts = [
        op.operands[0].type.shape[0]
        for op in find(kernel.operation, "tensor.extract_slice")
        if arguments & set(op.operands)
    ]
    return min(counts, default=1)
