"""Calls of the kernels of attention and of the KV cache, in the place of their operations."""

from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor
from torch_mlir.extras import types as T

from llmc.dialects import (
    AttentionPartOp,
    CacheAppendOp,
    CachedAttentionOp,
    DecodeAttentionOp,
    RotaryOp,
)
from llmc.dialects.block_bytes import to_blocks, to_bytes
from llmc.dialects.block_types import cell_format
from llmc.dialects.index_notation import as_value, index, size
from llmc.pipelines.kernels.append import append
from llmc.pipelines.kernels.attention import AttentionShape, attention
from llmc.pipelines.kernels.attention_cuts import (
    AttentionCut,
    ByteAttentionCut,
    DecodeAttentionCut,
    cut_of,
    kernel_of_attention,
)
from llmc.pipelines.kernels.byte_attention import byte_attention
from llmc.pipelines.kernels.counters import Counters
from llmc.pipelines.kernels.decode_attention import DecodeShape, decode_attention
from llmc.pipelines.kernels.kernel import Kernel, dispatch, module_around
from llmc.pipelines.kernels.partial_attention import PARTS, room_size, room_type
from llmc.pipelines.kernels.rotary import rotary
from llmc.pipelines.rewriting.head_norms import PlainHeads
from llmc.pipelines.rewriting.head_rows import heads_of, where_they_lie
from llmc.pipelines.rewriting.joined_rows import after_join, before_split, lengths_of
from llmc.pipelines.rewriting.operations import made_by
from llmc.pipelines.several_rows import open_dims


@dataclass(frozen=True)
class VectorUnit:
    """A CPU's: `lanes` floats are in a register, `instruction` multiplies bytes."""

    lanes: int
    instruction: str


def appends_tokens(op: CacheAppendOp) -> bool:
    """Whether there is a kernel for an append."""
    return _are_of_tokens(op.rows)


def attends_for_tokens(op: CachedAttentionOp) -> bool:
    """Whether there is a kernel for the attention of a prompt."""
    is_joined = before_split(op.query) is None or after_join(op.out) is not None
    return _are_of_tokens(op.query) and is_joined


def is_of_known_heads(op: RotaryOp) -> bool:
    """Whether of the extents of heads the number of tokens is open, or none, and they hold f32."""
    return open_dims(op.x.type) in ([2], []) and op.x.type.element_type == T.f32()


def attended(op: CachedAttentionOp) -> ir.Value:
    """What the kernel of `op` computes: its result, or that as rows of one sequence."""
    joined = after_join(op.out) if before_split(op.query) is not None else None
    return op.out if joined is None else joined


def call_append(op: CacheAppendOp, cpu: VectorUnit) -> list[ir.Value]:
    """The cache, with rows that are turned, normalised and narrowed on the way."""
    rows = _rows(op.rows)
    made = made_by(rows, "llmc.rotary")
    turned = made and made.opview
    tables = [turned.cos, turned.sin] if turned else []
    plain = PlainHeads.of(turned.x if turned else rows)
    interleaved = bool(turned and turned.interleaved.value)
    x, token_heads = where_they_lie(plain.value, cpu.lanes)
    tokens = as_value(size(plain.value, 2))
    # To ask `rows` how many they are would keep a norm that makes them, which the kernel takes in.
    each = tokens if rows == op.rows else as_value(lengths_of(op.rows, plain.value).each)
    new = dispatch(
        append(token_heads, bool(tables), interleaved, plain.norm, cell_format(op.cache.type)),
        [x, *tables, *plain.weights],
        [],
        scalars=[*plain.layer, op.layer, op.sequence, op.column, each, tokens],
        updated=[_stored(op.cache)],
    )
    return [_as_held(cache, op.cache) for cache in new]


def call_attention(op: CachedAttentionOp, cpu: VectorUnit) -> list[ir.Value]:
    """What is `attended`."""
    query, unknown = _rows(op.query), ir.ShapedType.get_dynamic_size()
    shape = AttentionShape.of(op, query, op.keys.type.shape[2])
    starts = ir.RankedTensorType.get(
        [unknown if shape.joined else shape.batch], op.start.type.element_type
    )
    result = [shape.batch, query.type.shape[2], shape.heads, shape.value_channels]
    (rows,) = dispatch(
        _prompt_attention(shape, op, cpu),
        [query, _stored(op.keys), _stored(op.values), tensor.cast(starts, op.start)],
        [ir.RankedTensorType.get(result, op.out.type.element_type)],
        [size(query, 2)],
        scalars=[op.layer, op.sequence, op.past],
    )
    return [heads_of(rows, size(query, 2))]


def call_attention_to_part(op: AttentionPartOp, cpu: VectorUnit) -> list[ir.Value]:
    """What a prompt sees of one rank's columns."""
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


def call_decode_attention(op: DecodeAttentionOp, cpu: VectorUnit) -> list[ir.Value]:
    """What a new token of each sequence sees, and the caches with it."""
    key_heads, shape = op.keys.type.shape[2], DecodeShape.of(op)
    batch = size(op.query, 0)
    static = isinstance(batch, int)
    counters = Counters(module_around(op.operation), "decode_attention.done", PARTS, 32)
    groups = key_heads * batch if static else None
    room = room_type(groups, shape.sharing, shape.value_channels)
    results = [op.out.type, room]
    extents = [] if static else [batch, room_size(arith.muli(batch, index(key_heads)))]
    caches = [op.keys, op.values]
    kernel = decode_attention(
        shape,
        batch if static else None,
        bool(op.tables),
        bool(op.norms),
        cpu.lanes,
        cpu.instruction,
        cut_of(op.operation, DecodeAttentionCut()),
    )
    out, _, *new, done = dispatch(
        kernel,
        [op.query, op.key, op.value, op.start, *op.tables, *op.norms],
        results,
        extents,
        scalars=[op.layer, op.sequence, op.past],
        updated=[*map(_stored, caches), counters.load()],
    )
    counters.store(done)
    return [out, *map(_as_held, new, caches)]


def call_rotary(op: RotaryOp, cpu: VectorUnit) -> list[ir.Value]:
    """Heads that are turned, and normalised on the way."""
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


def _are_of_tokens(heads: ir.Value) -> bool:
    """Whether of their extents the number of tokens alone is open, and they hold f32.

    That of sequences may be open, too, where they are split off rows.
    """
    heads = _rows(heads)
    return open_dims(heads.type) == [2] and heads.type.element_type == T.f32()


def _rows(heads: ir.Value) -> ir.Value:
    """What `heads` are split off, if they are, and else these."""
    joined = before_split(heads)
    return heads if joined is None else joined


def _prompt_attention(
    shape: AttentionShape, op: CachedAttentionOp | AttentionPartOp, cpu: VectorUnit
) -> Kernel:
    if kernel_of_attention(op.operation) == "byte_attention":
        cut = cut_of(op.operation, ByteAttentionCut())
        return byte_attention(shape, cpu.lanes, cpu.instruction, cut)
    f32 = T.f32()
    is_widened = any(cache.type.element_type != f32 for cache in (op.keys, op.values))
    return attention(shape, cpu.lanes, is_widened, cut_of(op.operation, AttentionCut()))


def _stored(cache: ir.Value) -> ir.Value:
    """A cache as its kernels see it: cells as bytes."""
    return to_bytes(cache) if cell_format(cache.type) else cache


def _as_held(new: ir.Value, cache: ir.Value) -> ir.Value:
    """`new`, which a kernel made of `cache`, with what this holds."""
    return to_blocks(new, cache.type.element_type) if cell_format(cache.type) else new
