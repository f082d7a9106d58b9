"""`call-kernels`: replaces operations that linalg cannot say fast enough by kernels of our own."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import Annotated, ClassVar

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor
from torch_mlir.extras import types as T

from llmc.dialects import (
    ArgmaxOp,
    AttentionPartOp,
    CacheAppendOp,
    CachedAttentionOp,
    CombineExpertsOp,
    CombineGroupedExpertsOp,
    DecodeAttentionOp,
    GroupRowsOp,
    NucleusOp,
    RMSNormOp,
    RotaryOp,
    RouteOp,
    ScoredRouteOp,
    ScreenedArgmaxOp,
    TakeRowsOp,
    TopKOp,
)
from llmc.dialects.block_bytes import to_blocks, to_bytes
from llmc.dialects.block_types import cell_format
from llmc.dialects.index_notation import as_value, collapse, expand, index, size
from llmc.dialects.kv_cache import channels
from llmc.pipelines.kernels.append import append
from llmc.pipelines.kernels.argmax import argmax
from llmc.pipelines.kernels.attention import AttentionShape, attention
from llmc.pipelines.kernels.attention_cuts import (
    AttentionCut,
    ByteAttentionCut,
    DecodeAttentionCut,
    cut_of,
    kernel_of_attention,
)
from llmc.pipelines.kernels.byte_attention import byte_attention
from llmc.pipelines.kernels.byte_instructions import InstructionName
from llmc.pipelines.kernels.combine_experts import combine_experts, combine_grouped_experts
from llmc.pipelines.kernels.counters import Counters
from llmc.pipelines.kernels.decode_attention import DecodeShape, decode_attention
from llmc.pipelines.kernels.group_rows import group_rows
from llmc.pipelines.kernels.kernel import Kernel, dispatch, module_around
from llmc.pipelines.kernels.marks import KIND
from llmc.pipelines.kernels.nucleus import nucleus
from llmc.pipelines.kernels.partial_attention import PARTS, room_size, room_type
from llmc.pipelines.kernels.rotary import rotary
from llmc.pipelines.kernels.route import route
from llmc.pipelines.kernels.scored_route import scored_route
from llmc.pipelines.kernels.take_rows import take_rows
from llmc.pipelines.kernels.top_k import top_k
from llmc.pipelines.option_text import Range
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.head_norms import PlainHeads, norms_heads, readers_of_heads
from llmc.pipelines.rewriting.head_rows import heads_of, where_they_lie
from llmc.pipelines.rewriting.joined_rows import (
    after_join,
    before_split,
    lengths_of,
    split_rows,
)
from llmc.pipelines.rewriting.kernel_operands import stack_and_place
from llmc.pipelines.rewriting.operations import made_by, upwards
from llmc.pipelines.rewriting.purity import erase_unread, is_needed
from llmc.pipelines.walks import find

_FLOAT_BYTES = 4


@dataclass(frozen=True)
class CallKernels(Pass):
    """Puts the kernels into the module, each once, and dispatches them where they are needed.

    `lanes` is the number of floats in a vector register, a power of two. Products of bytes, which a
    KV cache of cells needs, are by `instruction`. `llmc.cached_attention` and appends of a fixed
    number of tokens, and all of other floats than f32, have no kernel and are left alone; nor have
    those of a number of sequences that is not known, but where these are split off rows and joined
    again as `join-prompts` does it. Rotary embedding and appends read
    heads where they lie in the rows of a linear layer, and take in a norm of these; an append takes
    in rotary embedding and narrowing, too. Attention is cut up as a schedule wrote on it. Changes
    numerics: a kernel sums in another order, that of attention with its softmax block by block.
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
        # What appends takes in the operations before it; norms are taken in by all their readers.
        order = {"llmc.cache_append": 0, "llmc.rms_norm": 2}
        found = [op for op in find(module.operation, *KERNELS, "llmc.rms_norm") if has_kernel(op)]
        for op in sorted(found, key=lambda op: order.get(op.name, 1)):
            if _is_in_kernel(op):
                continue
            if op.name in KERNELS and is_needed(op):
                with ir.InsertionPoint(op), op.location:
                    results = KERNELS[op.name](op.opview, self)
                for old, new in zip(op.results, results, strict=True):
                    old.replace_all_uses_with(new)
            erase_unread(op)


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


def _appends_tokens(op: CacheAppendOp) -> bool:
    return _are_of_tokens(op.rows)


def _attends_for_tokens(op: CachedAttentionOp) -> bool:
    is_joined = before_split(op.query) is None or after_join(op.out) is not None
    return _are_of_tokens(op.query) and is_joined


def _are_of_tokens(heads: ir.Value) -> bool:
    """Whether of their extents the number of tokens alone is open, and they hold f32.

    That of sequences may be open, too, where they are split off rows.
    """
    heads = _rows(heads)
    return _open_dims(heads.type) == [2] and heads.type.element_type == T.f32()


def _rows(heads: ir.Value) -> ir.Value:
    """What `heads` are split off, if they are, and else these."""
    joined = before_split(heads)
    return heads if joined is None else joined


def _is_of_known_heads(op: RotaryOp) -> bool:
    """Whether of the extents of heads the number of tokens is open, or none, and they hold f32."""
    return _open_dims(op.x.type) in ([2], []) and op.x.type.element_type == T.f32()


def _open_dims(type_: ir.RankedTensorType) -> list[int]:
    return [dim for dim in range(type_.rank) if type_.is_dynamic_dim(dim)]


def _append(op: CacheAppendOp, cpu: CallKernels) -> list[ir.Value]:
    rows = _rows(op.rows)
    made = made_by(rows, "llmc.rotary")
    turned = made and made.opview
    tables = [turned.cos, turned.sin] if turned else []
    plain = PlainHeads.of(turned.x if turned else rows)
    interleaved = bool(turned and turned.interleaved.value)
    x, token_heads = where_they_lie(plain.value, cpu.lanes)
    tokens = as_value(size(plain.value, 2))
    together = tokens if rows == op.rows else as_value(lengths_of(op.rows, rows).each)
    new = dispatch(
        append(token_heads, bool(tables), interleaved, plain.norm, cell_format(op.cache.type)),
        [x, *tables, *plain.weights],
        [],
        scalars=[*plain.layer, op.layer, op.sequence, op.column, together, tokens],
        updated=[_stored(op.cache)],
    )
    return [_as_held(cache, op.cache) for cache in new]


def _holds_f32(op: ir.OpView) -> bool:
    """Whether its first operand does, which is a query or the rows to look through."""
    return op.operation.operands[0].type.element_type == T.f32()


def _prompt_attention(
    shape: AttentionShape, op: CachedAttentionOp | AttentionPartOp, cpu: CallKernels
) -> Kernel:
    if kernel_of_attention(op.operation) == "byte_attention":
        cut = cut_of(op.operation, ByteAttentionCut())
        return byte_attention(shape, cpu.lanes, cpu.instruction, cut)
    f32 = T.f32()
    is_widened = any(cache.type.element_type != f32 for cache in (op.keys, op.values))
    return attention(shape, cpu.lanes, is_widened, cut_of(op.operation, AttentionCut()))


def _attend(op: CachedAttentionOp, cpu: CallKernels) -> list[ir.Value]:
    query, unknown = _rows(op.query), ir.ShapedType.get_dynamic_size()
    batch, heads, tokens, _ = query.type.shape
    shape = replace(AttentionShape.of(op, op.keys.type.shape[2]), batch=batch)
    starts = ir.RankedTensorType.get(
        [unknown if shape.joined else batch], op.start.type.element_type
    )
    result = [batch, tokens, heads, shape.value_channels]
    (rows,) = dispatch(
        _prompt_attention(shape, op, cpu),
        [query, _stored(op.keys), _stored(op.values), tensor.cast(starts, op.start)],
        [ir.RankedTensorType.get(result, op.out.type.element_type)],
        [size(query, 2)],
        scalars=[op.layer, op.sequence, op.past],
    )
    out = heads_of(rows, size(query, 2))
    joined = after_join(op.out)
    if query == op.query or joined is None:
        return [out]
    joined.replace_all_uses_with(out)
    return [split_rows(out, lengths_of(op.query, query))]


def _attend_to_part(op: AttentionPartOp, cpu: CallKernels) -> list[ir.Value]:
    dynamic, f32 = ir.ShapedType.get_dynamic_size(), T.f32()
    batch, heads, tokens, of_key = op.query.type.shape
    width = op.out.type.shape[3]
    extents = [size(op.query, 0), size(op.query, 2)]
    query_type = ir.RankedTensorType.get([dynamic, heads, dynamic, of_key], f32)
    (rows,) = dispatch(
        _prompt_attention(AttentionShape.of_part(op), op, cpu),
        [tensor.cast(query_type, op.query), _stored(op.keys), _stored(op.values), op.start],
        [ir.RankedTensorType.get([dynamic, dynamic, heads, width], f32)],
        list(map(as_value, extents)),
        scalars=[op.layer, op.sequence, op.past],
    )
    rows = tensor.cast(ir.RankedTensorType.get([batch, tokens, heads, width], f32), rows)
    return [heads_of(rows, extents[1])]


def _argmax(op: ArgmaxOp, cpu: CallKernels) -> list[ir.Value]:
    return dispatch(argmax(op.x.type, cpu.lanes), [op.x], [op.out.type], _dynamic_rows(op.x))


def _screened_argmax(op: ScreenedArgmaxOp, cpu: CallKernels) -> list[ir.Value]:
    exact = op.exact
    return dispatch(argmax(exact.type, cpu.lanes), [exact], [op.out.type], _dynamic_rows(exact))


def _decode_attention(op: DecodeAttentionOp, cpu: CallKernels) -> list[ir.Value]:
    key_heads, shape = op.keys.type.shape[2], DecodeShape.of(op)
    batch = size(op.query, 0)
    static = isinstance(batch, int)
    tables = [table for table in (op.cos, op.sin) if table is not None]
    norms = [norm for norm in (op.query_norm, op.key_norm) if norm is not None]
    counters = Counters(module_around(op.operation), "decode_attention.done", PARTS, 32)
    groups = key_heads * batch if static else None
    room = room_type(groups, shape.sharing, channels(op.values))
    results = [op.out.type, room]
    extents = [] if static else [batch, room_size(arith.muli(batch, index(key_heads)))]
    caches = [op.keys, op.values]
    kernel = decode_attention(
        shape,
        batch if static else None,
        bool(tables),
        bool(norms),
        cpu.lanes,
        cpu.instruction,
        cut_of(op.operation, DecodeAttentionCut()),
    )
    out, _, *new, done = dispatch(
        kernel,
        [op.query, op.key, op.value, op.start, *tables, *norms],
        results,
        extents,
        scalars=[op.layer, op.sequence, op.past],
        updated=[*map(_stored, caches), counters.load()],
    )
    counters.store(done)
    return [out, *map(_as_held, new, caches)]


def _stored(cache: ir.Value) -> ir.Value:
    """A cache as its kernels see it: cells as bytes."""
    return to_bytes(cache) if cell_format(cache.type) else cache


def _as_held(new: ir.Value, cache: ir.Value) -> ir.Value:
    """`new`, which a kernel made of `cache`, with what this holds."""
    return to_blocks(new, cache.type.element_type) if cell_format(cache.type) else new


def _group_rows(op: GroupRowsOp, _cpu: CallKernels) -> list[ir.Value]:
    types = [op.order.type, op.first.type, op.place.type]
    return dispatch(group_rows(), [op.expert], types, _dynamic_rows(op.expert) * 2)


def _dynamic_rows(per_row: ir.Value) -> list[ir.Value]:
    return [size(per_row, 0)] if per_row.type.is_dynamic_dim(0) else []


def _rotary(op: RotaryOp, cpu: CallKernels) -> list[ir.Value]:
    plain = PlainHeads.of(op.x)
    x, token_heads = where_they_lie(plain.value, cpu.lanes)
    tokens = size(plain.value, 2)
    return dispatch(
        rotary(token_heads, bool(op.interleaved.value), plain.norm),
        [x, op.cos, op.sin, *plain.weights],
        [op.out.type],
        [] if isinstance(tokens, int) else [tokens],
        scalars=[*plain.layer, as_value(tokens)],
    )


def _route(op: RouteOp, cpu: CallKernels) -> list[ir.Value]:
    types = [op.weights.type, op.experts.type]
    kernel = route(op.logits.type, bool(op.normalised.value), cpu.lanes)
    return dispatch(kernel, [op.logits], types, _dynamic_rows(op.logits) * 2)


def _scored_route(op: ScoredRouteOp, cpu: CallKernels) -> list[ir.Value]:
    types = [op.weights.type, op.experts.type]
    kernel, extents = scored_route(op, cpu.lanes), _dynamic_rows(op.logits) * 2
    if op.bias is None:
        return dispatch(kernel, [op.logits], types, extents)
    biases, layer = stack_and_place(op.bias)
    return dispatch(kernel, [op.logits, biases], types, extents, scalars=[layer])


def _combine_experts(op: CombineExpertsOp, cpu: CallKernels) -> list[ir.Value]:
    return dispatch(combine_experts(op.out.type, cpu.lanes), [op.y, op.weights], [op.out.type])


def _combine_grouped_experts(op: CombineGroupedExpertsOp, cpu: CallKernels) -> list[ir.Value]:
    residual = [] if op.residual is None else [op.residual]
    kernel = combine_grouped_experts(op.out.type, bool(residual), cpu.lanes)
    operands = [op.y, op.place, op.weights, *residual]
    return dispatch(kernel, operands, [op.out.type], _dynamic_rows(op.weights))


def _has_static_rows(op: CombineExpertsOp) -> bool:
    return op.out.type.has_static_shape


def _has_static_columns(op: CombineGroupedExpertsOp) -> bool:
    return not op.out.type.is_dynamic_dim(1)


def _take_rows(op: TakeRowsOp, cpu: CallKernels) -> list[ir.Value]:
    (rows, *extents), of_row = op.out.type.shape, len(op.out.type.shape) - 1
    type_ = ir.RankedTensorType.get([rows, prod(extents)], op.out.type.element_type)
    (taken,) = dispatch(
        take_rows(type_, op.top_k.value, _FLOAT_BYTES * cpu.lanes),
        [op.ids, collapse(op.x, [1, of_row])],
        [type_],
        _dynamic_rows(op.ids),
    )
    return [expand(taken, [[size(taken, 0)], extents])]


def _nucleus(op: NucleusOp, cpu: CallKernels) -> list[ir.Value]:
    kernel = nucleus(op.x.type, cpu.lanes)
    return dispatch(kernel, [op.x, op.share], [op.out.type], _dynamic_rows(op.x))


def _top_k(op: TopKOp, cpu: CallKernels) -> list[ir.Value]:
    types = [op.values.type, op.places.type]
    extents = [*_dynamic_rows(op.x), op.count] * len(types)
    return dispatch(top_k(op.x.type, cpu.lanes), [op.x], types, extents)


_REQUIRED: dict[str, Callable[..., bool]] = {
    "llmc.argmax": _holds_f32,
    "llmc.attention_part": _holds_f32,
    "llmc.cache_append": _appends_tokens,
    "llmc.cached_attention": _attends_for_tokens,
    "llmc.combine_experts": _has_static_rows,
    "llmc.combine_grouped_experts": _has_static_columns,
    "llmc.decode_attention": _holds_f32,
    "llmc.decode_attention_part": _holds_f32,
    "llmc.rms_norm": _is_taken_in,
    "llmc.rotary": _is_of_known_heads,
    "llmc.screened_argmax": _holds_f32,
    "llmc.top_k": _holds_f32,
}
"""What must be true of an operation that not all cases have a kernel for."""

KERNELS: dict[str, Callable[..., list[ir.Value]]] = {
    "llmc.argmax": _argmax,
    "llmc.attention_part": _attend_to_part,
    "llmc.cache_append": _append,
    "llmc.cached_attention": _attend,
    "llmc.combine_experts": _combine_experts,
    "llmc.combine_grouped_experts": _combine_grouped_experts,
    "llmc.decode_attention": _decode_attention,
    "llmc.decode_attention_part": _decode_attention,
    "llmc.group_rows": _group_rows,
    "llmc.nucleus": _nucleus,
    "llmc.rotary": _rotary,
    "llmc.route": _route,
    "llmc.scored_route": _scored_route,
    "llmc.screened_argmax": _screened_argmax,
    "llmc.take_rows": _take_rows,
    "llmc.top_k": _top_k,
}
