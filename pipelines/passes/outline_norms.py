"""`outline-norms`: makes kernels of the norms of many rows."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import arith

from llmc.dialects import LayerNormOp, RMSNormOp
from llmc.dialects.index_notation import pointwise, sizes, slice_of_rows
from llmc.dialects.linear_rows import apart
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.extents import takes_whole
from llmc.pipelines.rewriting.functions import functions
from llmc.pipelines.rewriting.generics import addition_to, inputs
from llmc.pipelines.rewriting.head_rows import last_offset
from llmc.pipelines.rewriting.kernel_functions import KernelFunctions
from llmc.pipelines.rewriting.kernel_operands import KernelOperands, as_many, as_matrix
from llmc.pipelines.rewriting.layers import LAYER
from llmc.pipelines.rewriting.linear_prologue import read_lengths_before
from llmc.pipelines.rewriting.operations import made_by
from llmc.pipelines.walks import find

NORM_ROWS = "norm_rows"

_KERNELS = ("func.call", "func.return", "llmc.decode_attention", "llmc.take_rows")
_VIEWS = ("tensor.collapse_shape", "tensor.expand_shape", "tensor.cast")

_MOST_DIMENSIONS = 3
"""Of hidden states. Heads have more, whose rows are short: too little to do for a workgroup."""


@dataclass(frozen=True)
class OutlineNorms(Pass):
    """Turns `llmc.rms_norm` and `llmc.layer_norm` of several rows into calls of `norm_rows`.

    The kernel normalises any number of rows, of which it may take some columns alone, and adds a
    residual where that is all that reads the norm. It is so in numbered layer functions, of which
    `persist-layers` makes one kernel where they are nothing but kernels, and between kernels: with
    other computation around it IREE fuses a norm. Rows hold f32; those of heads, of four
    dimensions, stay, and one row is left to the layer that reads it, or to `outline-rows`.
    Changes numerics: the order of sums.
    """

    name: ClassVar[str] = "outline-norms"

    def apply(self, module: ir.Module) -> None:
        """Replaces norm by norm."""
        kernels = KernelFunctions(module)
        for function in functions(module):
            if LAYER in function.attributes:
                for op in find(function.operation, "llmc.rms_norm", "llmc.layer_norm"):
                    if _has_rows(op.opview.x.type):
                        read_lengths_before(op)
                        if _is_between_kernels(op):
                            _outline(op.opview, kernels)


def _has_rows(type_: ir.RankedTensorType) -> bool:
    is_hidden = 1 < type_.rank <= _MOST_DIMENSIONS and not type_.is_dynamic_dim(type_.rank - 1)
    return is_hidden and str(type_.element_type) == "f32" and prod(type_.shape[:-1]) != 1


def _is_between_kernels(norm: ir.Operation) -> bool:
    """Whether kernels, or the caller, give what is normalised, and they alone read the result."""
    before, _ = _columns(norm.opview.x)
    while made_by(before, *_VIEWS):
        before = before.owner.operands[0]
    is_given = isinstance(before.owner, ir.Block) or made_by(before, "func.call") is not None
    if not is_given:
        return False
    (normed,) = norm.results
    return addition_to(normed) is not None or all(op.name in _KERNELS for op in _readers(norm))


def _columns(rows: ir.Value) -> tuple[ir.Value, int]:
    """The rows that `rows` are some columns of, and the first of these; else `rows` and 0."""
    slice_, rank = made_by(rows, "tensor.extract_slice"), rows.type.rank
    start = last_offset(slice_.opview, rank) if slice_ else None
    if slice_ is None or start is None or not takes_whole(slice_.opview, range(rank - 1)):
        return rows, 0
    return slice_.opview.source, start


def _readers(op: ir.Operation) -> Iterator[ir.Operation]:
    """What reads the result of `op`, itself or a reshape of it; not what asks for its lengths."""
    for use in op.results[0].uses:
        reader = use.owner.operation
        if reader.name in _VIEWS:
            yield from _readers(reader)
        elif reader.name != "tensor.dim":
            yield reader


def _outline(norm: RMSNormOp | LayerNormOp, kernels: KernelFunctions) -> None:
    addition = addition_to(norm.out)
    end = norm.operation if addition is None else addition
    with ir.InsertionPoint(end), end.location:
        operands = KernelOperands()
        source, start = _columns(norm.x)
        x = operands.read(as_matrix(source, dynamic=True))
        parts = {name: operands.read(part) for name, part in _parts(norm).items()}
        added = [] if addition is None else [each for each in inputs(end) if each != norm.out]
        residuals = [operands.read(as_matrix(each, dynamic=True)) for each in added]

        def build(*arguments: ir.Value) -> list[ir.Value]:
            rows, columns = x(arguments), norm.x.type.shape[-1]
            if source != norm.x:
                rows = slice_of_rows(rows, start, columns)
            y = _rebuilt(norm, rows, {name: read(arguments) for name, read in parts.items()})
            for residual in residuals:
                y = pointwise("tn,tn->tn", _add, y, residual(arguments))
            return [y]

        (y,) = kernels.call(NORM_ROWS, operands.values, build)
        leading = sizes(norm.x)[:-1]
        end.results[0].replace_all_uses_with(apart(as_many(y, leading), leading))
    for op in dict.fromkeys((end, norm.operation)):
        op.erase()


def _add(a: ir.Value, b: ir.Value, _: ir.Value) -> ir.Value:
    return arith.addf(a, b)


def _parts(norm: RMSNormOp | LayerNormOp) -> dict[str, ir.Value]:
    """What a norm reads beside its rows, by name."""
    names = ("weight", "bias") if isinstance(norm, LayerNormOp) else ("weight",)
    return {name: part for name in names if (part := getattr(norm, name)) is not None}


def _rebuilt(norm: RMSNormOp | LayerNormOp, rows: ir.Value, parts: dict[str, ir.Value]) -> ir.Value:
    """The norm of `rows` within a kernel, by `parts`."""
    if isinstance(norm, LayerNormOp):
        return LayerNormOp(rows, norm.epsilon, rows.type, **parts).out
    return RMSNormOp(rows, norm.epsilon, norm.offset, rows.type, **parts).out
