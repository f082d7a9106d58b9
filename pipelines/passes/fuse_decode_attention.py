"""`fuse-decode-attention`: one operation for all that attention does with a new token."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.extras import types as T

from llmc.dialects import AttentionOp, AttentionPartOp, DecodeAttentionOp, DecodeAttentionPartOp
from llmc.dialects.attributes import f64, i64
from llmc.dialects.index_notation import expand, size
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.head_rows import rows_of_heads
from llmc.pipelines.rewriting.new_tokens import NewTokens
from llmc.pipelines.walks import find


@dataclass(frozen=True)
class FuseDecodeAttention(Pass):
    """Makes an `llmc.decode_attention` of an `llmc.attention` of one token of each sequence.

    It takes in the appends to the KV cache and the reads, the `llmc.rotary` and the `llmc.rms_norm`
    of query and key, and the cutting of linear layers' rows into heads. An `llmc.attention_part`
    becomes an `llmc.decode_attention_part`.
    """

    name: ClassVar[str] = "fuse-decode-attention"

    def apply(self, module: ir.Module) -> None:
        """Rewrites every attention of float32 numbers that reads what was appended for it."""
        for op in find(module.operation, "llmc.attention", "llmc.attention_part"):
            token = NewTokens.of(op.opview) if _is_decode(op.opview) else None
            if token:
                _fuse(token)


def _is_decode(attention: AttentionOp | AttentionPartOp) -> bool:
    type_ = attention.query.type
    single = not type_.is_dynamic_dim(2) and type_.shape[2] == 1
    return single and type_.element_type == T.f32()


def _fuse(token: NewTokens) -> None:
    attention, norms = token.attention, token.norms
    layer, sequence, past = token.place
    is_part = isinstance(attention, AttentionPartOp)
    batch, heads, _, _ = token.query.type.shape
    of_key, of_value = (rows.type.shape[3] for rows in (token.key, token.value))
    width = of_value + is_part
    cos, sin = token.tables or (None, None)
    kind = DecodeAttentionPartOp if is_part else DecodeAttentionOp
    columns = {"first": attention.first, "step": attention.step} if is_part else {}
    with ir.InsertionPoint(attention), attention.location:
        rows = rows_of_heads(token.query, token.key, token.value)
        fused = kind(
            *(row.value for row in rows),
            *token.caches,
            attention.start,
            layer,
            sequence,
            past,
            i64(rows[0].stride),
            *(i64(row.offset) for row in rows),
            i64(of_key),
            i64(of_value),
            f64(norms.epsilon),
            f64(norms.offset),
            i64(int(token.interleaved)),
            attention.scale,
            attention.window,
            attention.softcap,
            ir.RankedTensorType.get([batch, heads * width], attention.out.type.element_type),
            *(cache.type for cache in token.caches),
            cos=cos,
            sin=sin,
            query_norm=norms.query,
            key_norm=norms.key,
            **columns,
        )
        out = expand(fused.out, [[size(fused.out, 0)], [heads, 1, width]])
    token.replace(out, [fused.new_keys, fused.new_values])
