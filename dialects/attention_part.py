"""`llmc.attention_part`: attention to some of all columns, to be averaged with the rest."""

from math import inf
from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, ext, linalg, math, tensor

from llmc.dialects.attention import HIDDEN, AttentionOp, hidden_score, masked_scores
from llmc.dialects.cached_attention import checked_rows
from llmc.dialects.checks import same_element, shaped, static, tensor_of, verified
from llmc.dialects.dealt_columns import DealtColumns, verify_dealt
from llmc.dialects.index_notation import (
    as_value,
    collapse,
    constant,
    contract,
    index,
    pointwise,
    reduce,
    size,
    sizes,
)
from llmc.dialects.kv_cache import CacheReadOp, as_wide, held
from llmc.dialects.llmc import Operation


def _unless_hidden(x: ir.Value, peak: ir.Value, _: ir.Value) -> ir.Value:
    """An element of a row, or 0 where the row's highest score is of a column that it does not see.

    What a cache holds where nothing was appended may be no number.
    """
    sees = arith.cmpf(arith.CmpFPredicate.OGT, peak, hidden_score(peak.type))
    return arith.select(sees, x, constant(0.0, x.type))


class AttentionPartOp(Operation, name="attention_part", traits=[ext.Pure]):
    """`llmc.cached_attention` to caches that have columns `first`, `first + step`, ... of all.

    The result is `[B, H, T, E + 1]`: rows of attention, and behind each the logarithm of the sum of
    the exponentials of its scores. With the parts of other columns they make up an average, whose
    weights are the exponentials of these logarithms; that of a row that sees none of the columns is
    0. Dao et al., "Flash-Decoding", 2023.

        %o = "llmc.attention_part"(%q, %keys, %values, %start, %layer, %sequence, %past)
           {first = 1 : i64, step = 2 : i64, scale = 0.125 : f64, window = 0 : i64,
            softcap = 0.0 : f64}
           : (tensor<1x9x?x64xf32>, tensor<30x?x3x?x64xf32>, tensor<30x?x3x?x64xf32>,
              tensor<1xi64>, index, index, index) -> tensor<1x9x?x65xf32>
    """

    query: ext.Operand[Any]
    keys: ext.Operand[Any]
    values: ext.Operand[Any]
    start: ext.Operand[Any]
    layer: ext.Operand[ir.IndexType]
    sequence: ext.Operand[ir.IndexType]
    past: ext.Operand[ir.IndexType]
    first: ir.IntegerAttr
    step: ir.IntegerAttr
    scale: ir.FloatAttr
    window: ir.IntegerAttr
    softcap: ir.FloatAttr
    out: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks what `llmc.cached_attention` does, and which columns there are."""
        rows = checked_rows(self)
        verify_dealt(self)
        width = tensor_of(self.out, "out", 4)[3]
        static("out", self.out, 3)
        shaped("out", self.out, [*rows, width])
        as_wide("out", "its channels but one", width - 1, self.values)
        same_element("out", self.out, self.query)

    @staticmethod
    def reference(
        query: np.ndarray,
        keys: np.ndarray,
        values: np.ndarray,
        start: np.ndarray,
        layer: int,
        sequence: int,
        past: int,
        first: int,
        step: int,
        scale: float,
        window: int = 0,
        softcap: float = 0.0,
        outputs: int | None = None,
    ) -> np.ndarray:
        """`[B, H, T, D]`, `[layers, sequences, G, capacity, D or E]` -> `[B, H, T, E + 1]`.

        E + 1 is `outputs`, where cells have room for more.
        """
        batch, heads, tokens, _ = query.shape
        count = -(-max(past + tokens - first, 0) // step)
        key, value = (
            CacheReadOp.reference(cache, layer, sequence, batch, count, width)
            for cache, width in ((keys, query.shape[3]), (values, outputs and outputs - 1))
        )
        shared, columns = heads // key.shape[1], first + step * np.arange(count)
        out = np.zeros((batch, heads, tokens, value.shape[3] + 1), query.dtype)
        out[..., -1] = HIDDEN
        for b, h, t in np.ndindex(batch, heads, tokens):
            last = past + t
            least = max(start[b], last + 1 - window if window else 0)
            seen = (columns >= least) & (columns <= last)
            if not seen.any():
                continue
            scores = key[b, h // shared, seen] @ query[b, h, t] * scale
            if softcap:
                scores = softcap * np.tanh(scores / softcap)
            weights = np.exp(scores - scores.max())
            out[b, h, t, :-1] = weights @ value[b, h // shared, seen] / weights.sum()
            out[b, h, t, -1] = scores.max() + np.log(weights.sum())
        return out

    def lower(self) -> ir.Value:
        """Scores, their softmax, and the weighted sum of values; the logarithms by the largest."""
        attention = self._attention()
        scores = masked_scores(attention, DealtColumns.of(self).place)
        room = tensor.empty(sizes(scores), scores.type.element_type)
        weights = linalg.softmax([scores.type], scores, room, 4)
        rows = contract("bghts,bgsd->bghtd", weights, attention.value)
        attention.operation.erase()
        peak, share = (
            reduce("bghts->bght", lambda x, y: arith.maximumf(x, y), -inf, each)
            for each in (scores, weights)
        )
        rows = pointwise("bghtd,bght->bghtd", _unless_hidden, rows, peak)
        logs = pointwise(
            "bght,bght->bghtd", lambda x, y, _: arith.subf(x, math.log(y)), peak, share, d=1
        )
        return tensor.concat(self.out.type, 3, [collapse(x, [1, 2, 1, 1]) for x in (rows, logs)])

    def _attention(self) -> AttentionOp:
        """An operation, to be erased, on the columns that there are; on one where there is none."""
        tokens = as_value(size(self.query, 2))
        count = DealtColumns.of(self).held(arith.addi(self.past, tokens))
        count = arith.maxui(count, index(1))
        *rows, behind = self.out.type.shape
        width = behind - 1
        key, value = (
            held(cache, self.layer, self.sequence, size(self.query, 0), count, channels)
            for cache, channels in ((self.keys, self.query.type.shape[3]), (self.values, width))
        )
        shape = [*rows, width]
        type_ = ir.RankedTensorType.get(shape, self.out.type.element_type)
        return AttentionOp(
            self.query,
            key,
            value,
            self.scale,
            self.window,
            self.softcap,
            type_,
            past=self.past,
            start=self.start,
        )
