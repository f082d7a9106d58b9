"""What attention does with the tokens that it is computed for, from a linear layer's rows on."""

from dataclasses import dataclass

from torch_mlir import ir

from llmc.dialects import AttentionOp, AttentionPartOp, CacheAppendOp
from llmc.dialects.dealt_columns import DealtColumns
from llmc.pipelines.rewriting.generics import integer_constant
from llmc.pipelines.rewriting.head_norms import HeadNorms, without_norms
from llmc.pipelines.rewriting.operations import made_by


@dataclass(frozen=True)
class NewTokens:
    """Heads `[B, H or G, T, D or E]` as they are before `norms` and before `tables` turn them.

    The tables are the cosines and sines of `llmc.rotary`, `interleaved` or not, or none. Keys and
    values are appended to the caches of `appends`, from which `attention` reads them.
    """

    attention: AttentionOp | AttentionPartOp
    query: ir.Value
    key: ir.Value
    value: ir.Value
    norms: HeadNorms
    tables: list[ir.Value]
    interleaved: bool
    appends: tuple[CacheAppendOp, CacheAppendOp]

    @classmethod
    def of(cls, attention: AttentionOp | AttentionPartOp) -> "NewTokens | None":
        """Those of `attention`, built before it; None where it reads what was not appended for it.

        Only a fixed number of tokens is known to be all that was appended; of what is dealt out,
        only one.
        """
        appended = _appended_part if isinstance(attention, AttentionPartOp) else _appended
        _, key, value, *_ = attention.operation.operands
        keys, values = appended(attention, key), appended(attention, value)
        if attention.start is None or not keys or not values:
            return None
        if (keys.layer, keys.sequence) != (values.layer, values.sequence):
            return None
        batches = {value.type.shape[0] for value in (attention.query, keys.rows, values.rows)}
        if len(batches) > 1:
            return None
        query, key, tables, interleaved = _without_rotary(attention.query, keys.rows)
        with ir.InsertionPoint(attention), attention.location:
            query, key, norms = without_norms(query, key, keys.layer)
        appends = keys, values
        return cls(attention, query, key, values.rows, norms, tables, interleaved, appends)

    @property
    def caches(self) -> list[ir.Value]:
        """Keys and values before the appends."""
        return [append.cache for append in self.appends]

    @property
    def place(self) -> list[ir.Value]:
        """The layer, the first sequence and the first column, of all, that are appended to."""
        keys, _ = self.appends
        return [keys.layer, keys.sequence, self.attention.past]

    def replace(self, out: ir.Value, caches: list[ir.Value]) -> None:
        """Puts the attention's result and the new caches in the place of attention and appends."""
        _, *held = list(self.attention.operation.operands)[:3]
        reads = [read for value in held if (read := made_by(value, "llmc.cache_read"))]
        self.attention.out.replace_all_uses_with(out)
        self.attention.operation.erase()
        for read in reads:
            read.erase()
        for append, new in zip(self.appends, caches, strict=True):
            append.out.replace_all_uses_with(new)
            append.operation.erase()


def _appended(attention: AttentionOp, held: ir.Value) -> CacheAppendOp | None:
    """The append to the cache that `held` is read from, for this attention before all others.

    None where `held` is not all columns up to the last that is appended, of the same sequences.
    """
    reader = made_by(held, "llmc.cache_read")
    appender = reader and made_by(reader.opview.cache, "llmc.cache_append")
    if not reader or not appender or len(list(held.uses)) > 1:  # as keys and values, or elsewhere
        return None
    append, read = appender.opview, reader.opview
    past, tokens = append.column, attention.query.type.shape[2]
    where = [append.layer, append.sequence, past]
    alike = where == [read.layer, read.sequence, attention.past]
    follows = _is_sum(read.columns, past, tokens) and append.rows.type.shape[2] == tokens
    users = [use.owner.operation for use in append.out.uses if use.owner != read.operation]
    last = all(_is_after(user, attention) for user in users)
    return append if alike and follows and last else None


def _appended_part(attention: AttentionPartOp, cache: ir.Value) -> CacheAppendOp | None:
    """The append of one token that gives `cache`, for this attention before all others.

    None where it is not behind the columns that the cache has, or of other sequences.
    """
    appender, (_, _, tokens, _) = made_by(cache, "llmc.cache_append"), attention.query.type.shape
    uses = [use.owner.operation for use in cache.uses]
    if not appender or tokens != 1 or uses.count(attention.operation) > 1:  # as keys and values
        return None
    append = appender.opview
    alike = [append.layer, append.sequence] == [attention.layer, attention.sequence]
    follows = _is_held(append.column, attention.past, DealtColumns.of(attention))
    users = [user for user in uses if user != attention.operation]
    last = all(_is_after(user, attention) for user in users)
    return append if alike and follows and append.rows.type.shape[2] == 1 and last else None


def _is_held(column: ir.Value, past: ir.Value, dealt: DealtColumns) -> bool:
    """Whether `column` is `dealt.held(past)`."""
    quotient = made_by(column, "arith.divui")
    if quotient is None or integer_constant(quotient.operands[1]) != dealt.step:
        return False
    more = dealt.step - 1 - dealt.first
    return quotient.operands[0] == past if not more else _is_sum(quotient.operands[0], past, more)


def _is_sum(columns: ir.Value, past: ir.Value, tokens: int) -> bool:
    """Whether `columns` is `past + tokens`."""
    sum_ = made_by(columns, "arith.addi")
    if sum_ is None:
        return False
    return sum_.operands[0] == past and integer_constant(sum_.operands[1]) == tokens


def _is_after(user: ir.Operation, attention: AttentionOp | AttentionPartOp) -> bool:
    operation = attention.operation
    return user.block == operation.block and operation.is_before_in_block(user)


def _without_rotary(
    query: ir.Value, key: ir.Value
) -> tuple[ir.Value, ir.Value, list[ir.Value], bool]:
    """Query and key as they are before both are turned alike, by which tables and how."""
    turned = [op.opview for value in (query, key) if (op := made_by(value, "llmc.rotary"))]
    ways = [([op.cos, op.sin], bool(op.interleaved.value)) for op in turned]
    if len(turned) < 2 or ways[0] != ways[1]:
        return query, key, [], False
    return turned[0].x, turned[1].x, *ways[0]
