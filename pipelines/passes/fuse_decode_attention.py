"""`fuse-decode-attention`: one operation for all that attention does with a new token."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from llmc.dialects import AttentionOp, CacheAppendOp, DecodeAttentionOp
from llmc.dialects.attributes import f64, i64
from llmc.dialects.index_notation import expand, size
from llmc.pipelines.passes.base import Pass, find
from llmc.pipelines.passes.head_norms import without_norms
from llmc.pipelines.passes.head_rows import made_by, rows_of_heads


@dataclass(frozen=True)
class FuseDecodeAttention(Pass):
    """Makes an `llmc.decode_attention` of an `llmc.attention` of one token of each sequence.

    It takes in the appends to the KV cache and the reads, the `llmc.rotary` and the `llmc.rms_norm`
    of query and key, and the cutting of linear layers' rows into heads.
    """

    name: ClassVar[str] = "fuse-decode-attention"

    def apply(self, module: ir.Module) -> None:
        """Rewrites every attention of float32 numbers that reads what was appended for it."""
        for op in find(module.operation, "llmc.attention"):
            attention = op.opview
            keys, values = (_appended(attention, held) for held in (attention.key, attention.value))
            if _is_decode(attention) and keys and values:
                _fuse(attention, keys, values)


def _is_decode(attention: AttentionOp) -> bool:
    type_ = attention.query.type
    single = not type_.is_dynamic_dim(2) and type_.shape[2] == 1
    return single and attention.start is not None and type_.element_type == ir.F32Type.get()


def _appended(attention: AttentionOp, held: ir.Value) -> CacheAppendOp | None:
    """The append to the cache that `held` is read from, for this attention before all others.

    None where `held` is not all columns up to the one that is appended, of the same sequences.
    """
    reader = made_by(held, "llmc.cache_read")
    appender = reader and made_by(reader.opview.cache, "llmc.cache_append")
    if not reader or not appender or len(list(held.uses)) > 1:  # as keys and values, or elsewhere
        return None
    append, read = appender.opview, reader.opview
    past = append.column
    where = [append.layer, append.sequence, past]
    alike = where == [read.layer, read.sequence, attention.past] and _follows(read.columns, past)
    users = [use.owner.operation for use in append.out.uses if use.owner != read.operation]
    return append if alike and all(_is_after(user, attention) for user in users) else None


def _follows(columns: ir.Value, past: ir.Value) -> bool:
    """Whether `columns` is `past + 1`."""
    sum_ = made_by(columns, "arith.addi")
    if sum_ is None or sum_.operands[0] != past:
        return False
    one = made_by(sum_.operands[1], "arith.constant")
    return one is not None and one.opview.literal_value == 1


def _is_after(user: ir.Operation, attention: AttentionOp) -> bool:
    operation = attention.operation
    return user.block == operation.block and operation.is_before_in_block(user)


def _fuse(attention: AttentionOp, keys: CacheAppendOp, values: CacheAppendOp) -> None:
    reads = [attention.key.owner, attention.value.owner]
    value = values.rows
    query, key, tables = _without_rotary(attention.query, keys.rows)
    batch, heads, _, _ = query.type.shape
    width = value.type.shape[3]
    with ir.InsertionPoint(attention), attention.location:
        query, key, norms = without_norms(query, key, keys.layer)
        rows = rows_of_heads(query, key, value)
        fused = DecodeAttentionOp(
            *(row.value for row in rows),
            keys.cache,
            values.cache,
            attention.start,
            keys.layer,
            keys.sequence,
            attention.past,
            i64(rows[0].stride),
            *(i64(row.offset) for row in rows),
            f64(norms.epsilon),
            f64(norms.offset),
            attention.scale,
            attention.window,
            attention.softcap,
            ir.RankedTensorType.get([batch, heads * width], attention.out.type.element_type),
            keys.out.type,
            values.out.type,
            cos=tables and tables[0],
            sin=tables and tables[1],
            query_norm=norms.query,
            key_norm=norms.key,
        )
        out = expand(fused.out, [[size(fused.out, 0)], [heads, 1, width]])
    attention.out.replace_all_uses_with(out)
    attention.operation.erase()
    for read in reads:
        read.erase()
    for append, new in ((keys, fused.new_keys), (values, fused.new_values)):
        append.out.replace_all_uses_with(new)
        append.operation.erase()


def _without_rotary(
    query: ir.Value, key: ir.Value
) -> tuple[ir.Value, ir.Value, list[ir.Value] | None]:
    """Query and key as they are before they are turned, and the tables if both are by the same."""
    turned = [op.opview for value in (query, key) if (op := made_by(value, "llmc.rotary"))]
    tables = [[op.cos, op.sin] for op in turned]
    if len(turned) < 2 or tables[0] != tables[1]:
        return query, key, None
    return turned[0].x, turned[1].x, tables[0]
