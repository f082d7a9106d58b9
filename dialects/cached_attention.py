"""`llmc.cached_attention`: attention that reads keys and values where they lie in the cache."""

from fractions import Fraction
from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, ext

from llmc.dialects.attention import AttentionOp
from llmc.dialects.block_types import cell_format
from llmc.dialects.cache_cells import KEYS, VALUES
from llmc.dialects.checks import (
    at_most,
    counts,
    divisor,
    filled,
    floats,
    integers,
    multiple,
    number,
    same,
    same_element,
    shaped,
    static,
    tensor_of,
    verified,
)
from llmc.dialects.index_notation import as_value, size
from llmc.dialects.kv_cache import CacheReadOp, as_wide, capacity, held, holds_rows
from llmc.dialects.llmc import Operation
from llmc.dialects.mismatch import require
from llmc.dialects.sharding_rule import Dim, ShardingRule, by_letters


class CachedAttentionOp(Operation, name="cached_attention", traits=[ext.Pure]):
    """`llmc.attention` over columns 0 to `past + T - 1` of one layer of a KV cache.

    `query` is `[B, H, T, D]`, the caches are `[layers, sequences, G, capacity, D or E]`, or cells
    of these; the sequences are those from number `sequence` on.

        %o = "llmc.cached_attention"(%q, %keys, %values, %start, %layer, %sequence, %past)
           {scale = 0.125 : f64, window = 0 : i64, softcap = 0.0 : f64}
           : (tensor<1x9x?x64xf32>, tensor<30x?x3x?x64xf32>, tensor<30x?x3x?x64xf32>,
              tensor<1xi64>, index, index, index) -> tensor<1x9x?x64xf32>
    """

    query: ext.Operand[Any]
    keys: ext.Operand[Any]
    values: ext.Operand[Any]
    start: ext.Operand[Any]
    layer: ext.Operand[ir.IndexType]
    sequence: ext.Operand[ir.IndexType]
    past: ext.Operand[ir.IndexType]
    scale: ir.FloatAttr
    window: ir.IntegerAttr
    softcap: ir.FloatAttr
    out: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks heads and channels of the query against the caches."""
        rows = checked_rows(self)
        for cache in (self.keys, self.values):
            at_most("query", "tokens", rows[2], capacity(cache))
        width = tensor_of(self.out, "out", 4)[3]
        shaped("out", self.out, [*rows, width])
        as_wide("out", "its channels", width, self.values)
        same_element("out", self.out, self.query)

    def sharding(self) -> ShardingRule:
        """By heads with the key heads that they share."""
        shared = self.query.type.shape[1] // self.keys.type.shape[2]
        return by_letters(
            self,
            groups={"h": shared},
            dims={"g": Dim("h", Fraction(1, shared))},
            query=".h..",
            keys="..g..",
            values="..g..",
            out=".h..",
        )

    @staticmethod
    def reference(
        query: np.ndarray,
        keys: np.ndarray,
        values: np.ndarray,
        start: np.ndarray,
        layer: int,
        sequence: int,
        past: int,
        scale: float,
        window: int = 0,
        softcap: float = 0.0,
        outputs: int | None = None,
    ) -> np.ndarray:
        """`[B, H, T, D]`, `[layers, sequences, G, capacity, D or E]` twice -> `[B, H, T, E]`.

        E is `outputs`, where cells have room for more.
        """
        batch, columns = len(query), past + query.shape[2]
        key, value = (
            CacheReadOp.reference(cache, layer, sequence, batch, columns, width)
            for cache, width in ((keys, query.shape[3]), (values, outputs))
        )
        return AttentionOp.reference(query, key, value, scale, window, softcap, past, start)

    def lower(self) -> ir.Value:
        """What the caches hold, and `llmc.attention` over it."""
        batch, tokens = size(self.query, 0), size(self.query, 2)
        columns = arith.addi(self.past, as_value(tokens))
        rows = (
            held(cache, self.layer, self.sequence, batch, columns, rows.type.shape[3])
            for cache, rows in ((self.keys, self.query), (self.values, self.out))
        )
        attention = AttentionOp(
            self.query,
            *rows,
            self.scale,
            self.window,
            self.softcap,
            self.out.type,
            past=self.past,
            start=self.start,
        )
        out = attention.lower()
        attention.operation.erase()
        return out


def checked_rows(op: Any) -> list[int | None]:
    """Checks the operands of attention to caches, and returns the extents `[B, H, T]` of rows."""
    batch, heads, tokens, width = tensor_of(op.query, "query", 4)
    floats("query", op.query)
    check_caches(op, batch)
    as_wide("query", "its channels", width, op.keys)
    static("query", op.query, 1)
    multiple("query", "its heads", heads, op.keys.type.shape[2])
    return [batch, heads, tokens]


def check_caches(op: Any, batch: int | None) -> None:
    """Checks the caches that `batch` sequences attend to, and what says how they do."""
    keys, values = tensor_of(op.keys, "keys", 5), tensor_of(op.values, "values", 5)
    for name, cache, shape, format_ in (
        ("keys", op.keys, keys, KEYS),
        ("values", op.values, values, VALUES),
    ):
        holds_rows(name, cache, op.query, format_)
        static(name, cache, 2, 4)
        filled(name, cache, 2, 3, 4)
        at_most("query", "a batch", batch, shape[1])
    alike = bool(cell_format(op.keys.type)) == bool(cell_format(op.values.type))
    require(alike, "must hold cells, or floats, as 'keys' do", "values")
    if cell_format(op.keys.type):
        filled("query", op.query)
    same("values", "its heads", values[2], keys[2])
    same("start", "its length", tensor_of(op.start, "start", 1)[0], batch)
    integers("start", op.start)
    number("scale", op.scale, op.query)
    counts("window", op.window, least=0)
    divisor("softcap", op.softcap, op.query)
