"""`attend-in-place`: lets attention read the KV cache itself."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from llmc.dialects import AttentionOp, CachedAttentionOp, CacheReadOp
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.extents import is_length
from llmc.pipelines.rewriting.operations import made_by
from llmc.pipelines.walks import find


@dataclass(frozen=True)
class AttendInPlace(Pass):
    """Fuses `llmc.cache_read` of keys and values into the `llmc.attention` over them.

    Only where many tokens attend at once, whose scores would be as large as tokens times columns:
    one token of each sequence is for `fuse-decode-attention`. Keys and values must be those of one
    layer and of the same sequences, up to the last column that a token sees.
    """

    name: ClassVar[str] = "attend-in-place"

    def apply(self, module: ir.Module) -> None:
        """Rewrites every attention of an open number of tokens of a fixed number of sequences."""
        for op in find(module.operation, "llmc.attention"):
            attention = op.opview
            keys, values = (
                made_by(value, "llmc.cache_read") for value in (attention.key, attention.value)
            )
            if keys and values and _has_many_rows(attention):
                _fuse(attention, keys.opview, values.opview)


def _has_many_rows(attention: AttentionOp) -> bool:
    type_ = attention.query.type
    stateful = attention.past is not None and attention.start is not None
    return stateful and type_.is_dynamic_dim(2) and not type_.is_dynamic_dim(0)


def _fuse(attention: AttentionOp, keys: CacheReadOp, values: CacheReadOp) -> None:
    if (keys.layer, keys.sequence) != (values.layer, values.sequence):
        return
    if not _reads_all(keys, attention) or not _reads_all(values, attention):
        return
    with ir.InsertionPoint(attention), attention.location:
        fused = CachedAttentionOp(
            attention.query,
            keys.cache,
            values.cache,
            attention.start,
            keys.layer,
            keys.sequence,
            attention.past,
            attention.scale,
            attention.window,
            attention.softcap,
            attention.out.type,
        )
    attention.out.replace_all_uses_with(fused.out)
    attention.operation.erase()


def _reads_all(read: CacheReadOp, attention: AttentionOp) -> bool:
    """Whether `read` has the columns before the tokens of `attention`, and theirs."""
    sum_ = made_by(read.columns, "arith.addi")
    if sum_ is None:
        return False
    past, tokens = sum_.operands
    return past == attention.past and is_length(tokens, attention.query, 2)
