"""`call-kernels`: replaces operations that linalg cannot say fast enough by kernels of our own."""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Annotated, ClassVar

from torch_mlir import ir
from torch_mlir.extras import types as T

from llmc.dialects import (
    ArgmaxOp,
    CachedAttentionOp,
    CombineExpertsOp,
    CombineGroupedExpertsOp,
    DrawOfAllOp,
    DrawOp,
    GroupRowsOp,
    RMSNormOp,
    RouteOp,
    ScoredRouteOp,
    ScreenedArgmaxOp,
    TakeRowsOp,
    TopKOp,
)
from llmc.dialects.index_notation import collapse, expand, size
from llmc.pipelines.kernels.argmax import argmax
from llmc.pipelines.kernels.byte_instructions import InstructionName
from llmc.pipelines.kernels.combine_experts import combine_experts, combine_grouped_experts
from llmc.pipelines.kernels.draw import draw
from llmc.pipelines.kernels.draw_of_all import draw_of_all, room_for_weights
from llmc.pipelines.kernels.group_rows import group_rows
from llmc.pipelines.kernels.kernel import dispatch
from llmc.pipelines.kernels.marks import KIND
from llmc.pipelines.kernels.route import route
from llmc.pipelines.kernels.scored_route import scored_route
from llmc.pipelines.kernels.take_rows import take_rows
from llmc.pipelines.kernels.top_k import top_k
from llmc.pipelines.option_text import Range
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.attention_kernels import (
    VectorUnit,
    appends_tokens,
    attended,
    attends_for_tokens,
    call_append,
    call_attention,
    call_attention_to_part,
    call_decode_attention,
    call_rotary,
    is_of_known_heads,
)
from llmc.pipelines.rewriting.head_norms import norms_heads, readers_of_heads
from llmc.pipelines.rewriting.kernel_operands import stack_and_place
from llmc.pipelines.rewriting.operations import upwards
from llmc.pipelines.rewriting.purity import erase_unread, is_needed
from llmc.pipelines.walks import find

_FLOAT_BYTES = 4


_NORM = "llmc.rms_norm"


@dataclass(frozen=True)
class CallKernels(Pass):
    """Puts the kernels into the module, each once, and dispatches them where they are needed.

    `lanes` is the number of floats in a vector register, a power of two. Products of bytes, which a
    KV cache of cells needs, are by `instruction`. `llmc.cached_attention` and appends of a fixed
    number of tokens, and all of other floats than f32, have no kernel and are left alone. So are
    those, and rotary embedding, of a number of sequences that is not known; but attention has one
    where `join-prompts` split these off rows and joined them again, and appends where it split
    them. Rotary embedding and appends read heads where they lie in the rows of a linear layer, and
    take in a norm of these; an append takes in rotary embedding and narrowing, too. Attention is
    cut up as a schedule wrote on it. Changes numerics: a kernel sums in another order, that of
    attention with its softmax block by block.
    """

    name: ClassVar[str] = "call-kernels"
    lanes: Annotated[int, Range(1, 256)] = 16
    instruction: InstructionName = "plain"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lanes.bit_count() != 1:
            raise ValueError(f"lanes must be a power of two, not {self.lanes}")

    def apply(self, module: ir.Module) -> None:
        """Rewrites operation by operation."""
        module.context.allow_unregistered_dialects = True
        ours = find(module.operation, *KERNELS, _NORM)
        ours = [op for op in ours if not _is_in_kernel(op) and (op.name == _NORM or has_kernel(op))]
        unit = VectorUnit(self.lanes, self.instruction)
        # An append comes first, for it takes in what computes its rows.
        for op in sorted(ours, key=lambda op: op.name != "llmc.cache_append"):
            if op.name in KERNELS and is_needed(op):
                with ir.InsertionPoint(op), op.location:
                    results = KERNELS[op.name](op.opview, unit)
                for old, new in zip(_computed(op), results, strict=True):
                    old.replace_all_uses_with(new)
        # Norms are in what reads them by now, be it that rows are split off them before.
        for op in reversed(ours):
            erase_unread(op)


def _computed(op: ir.Operation) -> list[ir.Value]:
    """What the kernel of `op` gives."""
    is_attention = op.name == CachedAttentionOp.OPERATION_NAME
    return [attended(op.opview)] if is_attention else list(op.results)


def _is_in_kernel(op: ir.Operation) -> bool:
    """Whether `op` is a part of what another kernel computes."""
    return any(KIND in parent.attributes for parent in upwards(op))


def has_kernel(op: ir.Operation) -> bool:
    """Whether `call-kernels` has a kernel for `op`, or for all that read it, which takes it in."""
    required = _REQUIRED.get(op.name)
    if required is None:
        return op.name in KERNELS
    return required(op.opview)


def _is_taken_in(op: RMSNormOp) -> bool:
    """Whether it norms heads that kernels turn or append, and nothing else reads."""
    names = ("llmc.rotary", "llmc.cache_append")
    takes_in = [reader.name in names and has_kernel(reader) for reader in readers_of_heads(op)]
    return norms_heads(op) and bool(takes_in) and all(takes_in)


def _holds_f32(op: ir.OpView) -> bool:
    """Whether its first operand does, which is a query or the rows to look through."""
    return op.operation.operands[0].type.element_type == T.f32()


def _argmax(op: ArgmaxOp, cpu: VectorUnit) -> list[ir.Value]:
    return dispatch(argmax(op.x.type, cpu.lanes), [op.x], [op.out.type], _dynamic_rows(op.x))


def _screened_argmax(op: ScreenedArgmaxOp, cpu: VectorUnit) -> list[ir.Value]:
    exact = op.exact
    return dispatch(argmax(exact.type, cpu.lanes), [exact], [op.out.type], _dynamic_rows(exact))


def _group_rows(op: GroupRowsOp, _cpu: VectorUnit) -> list[ir.Value]:
    types = [op.order.type, op.first.type, op.place.type]
    return dispatch(group_rows(), [op.expert], types, _dynamic_rows(op.expert) * 2)


def _dynamic_rows(per_row: ir.Value) -> list[ir.Value]:
    return [size(per_row, 0)] if per_row.type.is_dynamic_dim(0) else []


def _route(op: RouteOp, cpu: VectorUnit) -> list[ir.Value]:
    types = [op.weights.type, op.experts.type]
    kernel = route(op.logits.type, bool(op.normalised.value), cpu.lanes)
    return dispatch(kernel, [op.logits], types, _dynamic_rows(op.logits) * 2)


def _scored_route(op: ScoredRouteOp, cpu: VectorUnit) -> list[ir.Value]:
    types = [op.weights.type, op.experts.type]
    kernel, extents = scored_route(op, cpu.lanes), _dynamic_rows(op.logits) * 2
    if op.bias is None:
        return dispatch(kernel, [op.logits], types, extents)
    biases, layer = stack_and_place(op.bias)
    return dispatch(kernel, [op.logits, biases], types, extents, scalars=[layer])


def _combine_experts(op: CombineExpertsOp, cpu: VectorUnit) -> list[ir.Value]:
    return dispatch(combine_experts(op.out.type, cpu.lanes), [op.y, op.weights], [op.out.type])


def _combine_grouped_experts(op: CombineGroupedExpertsOp, cpu: VectorUnit) -> list[ir.Value]:
    residual = [] if op.residual is None else [op.residual]
    kernel = combine_grouped_experts(op.out.type, bool(residual), cpu.lanes)
    operands = [op.y, op.place, op.weights, *residual]
    return dispatch(kernel, operands, [op.out.type], _dynamic_rows(op.weights))


def _has_static_rows(op: CombineExpertsOp) -> bool:
    return op.out.type.has_static_shape


def _has_static_columns(op: CombineGroupedExpertsOp) -> bool:
    return not op.out.type.is_dynamic_dim(1)


def _take_rows(op: TakeRowsOp, cpu: VectorUnit) -> list[ir.Value]:
    (rows, *extents), of_row = op.out.type.shape, len(op.out.type.shape) - 1
    type_ = ir.RankedTensorType.get([rows, prod(extents)], op.out.type.element_type)
    (taken,) = dispatch(
        take_rows(type_, op.top_k.value, _FLOAT_BYTES * cpu.lanes),
        [op.ids, collapse(op.x, [1, of_row])],
        [type_],
        _dynamic_rows(op.ids),
    )
    return [expand(taken, [[size(taken, 0)], extents])]


def _draw(op: DrawOp, cpu: VectorUnit) -> list[ir.Value]:
    operands = [op.logits, op.values, op.tokens, op.best, op.random, op.options]
    kernel, extents = draw(op.logits.type, cpu.lanes), _dynamic_rows(op.logits)
    return dispatch(kernel, operands, [op.out.type], extents, scalars=[op.top_k])


def _draw_of_all(op: DrawOfAllOp, cpu: VectorUnit) -> list[ir.Value]:
    operands = [op.found, op.logits, op.values, op.tokens, op.random, op.options]
    types = [op.out.type, room_for_weights(op.logits.type)]
    kernel, extents = draw_of_all(op.logits.type, cpu.lanes), _dynamic_rows(op.logits) * 2
    drawn, _ = dispatch(kernel, operands, types, extents)
    return [drawn]


def _top_k(op: TopKOp, cpu: VectorUnit) -> list[ir.Value]:
    types = [op.values.type, op.places.type]
    extents = [*_dynamic_rows(op.x), op.count] * len(types)
    return dispatch(top_k(op.x.type, cpu.lanes), [op.x], types, extents)


_REQUIRED: dict[str, Callable[..., bool]] = {
    "llmc.argmax": _holds_f32,
    "llmc.attention_part": _holds_f32,
    "llmc.cache_append": appends_tokens,
    "llmc.cached_attention": attends_for_tokens,
    "llmc.combine_experts": _has_static_rows,
    "llmc.combine_grouped_experts": _has_static_columns,
    "llmc.decode_attention": _holds_f32,
    "llmc.decode_attention_part": _holds_f32,
    _NORM: _is_taken_in,
    "llmc.rotary": is_of_known_heads,
    "llmc.screened_argmax": _holds_f32,
    "llmc.top_k": _holds_f32,
}
"""What must be true of an operation that not all cases have a kernel for."""

KERNELS: dict[str, Callable[..., list[ir.Value]]] = {
    "llmc.argmax": _argmax,
    "llmc.attention_part": call_attention_to_part,
    "llmc.cache_append": call_append,
    "llmc.cached_attention": call_attention,
    "llmc.combine_experts": _combine_experts,
    "llmc.combine_grouped_experts": _combine_grouped_experts,
    "llmc.decode_attention": call_decode_attention,
    "llmc.decode_attention_part": call_decode_attention,
    "llmc.draw": _draw,
    "llmc.draw_of_all": _draw_of_all,
    "llmc.group_rows": _group_rows,
    "llmc.rotary": call_rotary,
    "llmc.route": _route,
    "llmc.scored_route": _scored_route,
    "llmc.screened_argmax": _screened_argmax,
    "llmc.take_rows": _take_rows,
    "llmc.top_k": _top_k,
}
