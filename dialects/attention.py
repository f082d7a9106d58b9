"""`llmc.attention`: causal attention with grouped heads, window and soft cap."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, ext, linalg, math, tensor
from torch_mlir.extras import types as T

from llmc.dialects.checks import (
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
from llmc.dialects.index_notation import (
    collapse,
    constant,
    contract,
    expand,
    index,
    loop_index,
    pointwise,
    sizes,
)
from llmc.dialects.llmc import Operation
from llmc.dialects.sharding_rule import Dim, ShardingRule, by_letters

# Stands for minus infinity: a row that may see nothing stays finite instead of 0/0.
HIDDEN = -1.0e30
_HIDDEN_F16 = -65504.0  # the least that there is


class AttentionOp(Operation, name="attention", traits=[ext.Pure]):
    """Attention of `query [B, H, T, D]` over `key [B, G, S, D]` and `value [B, G, S, E]`.

    H is a multiple of G: H/G query heads share a key head. Query row t stands at column
    `past + t` of the keys and sees the columns up to its own, from `start[b]` on, and of these the
    last `window` alone (0: all); a row that sees none is undefined. `softcap` c > 0 bends scores to
    `c * tanh(score / c)`. Without `past` and `start` both are 0. Vaswani et al., 2017; Ainslie et
    al. (grouped heads), 2023.

        %o = "llmc.attention"(%q, %k, %v, %past, %start)
           {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>,
            scale = 0.125 : f64, window = 0 : i64, softcap = 0.0 : f64}
           : (tensor<1x9x?x64xf32>, tensor<1x3x?x64xf32>, tensor<1x3x?x64xf32>, index,
              tensor<1xi64>) -> tensor<1x9x?x64xf32>
    """

    query: ext.Operand[Any]
    key: ext.Operand[Any]
    value: ext.Operand[Any]
    scale: ir.FloatAttr
    window: ir.IntegerAttr
    softcap: ir.FloatAttr
    out: ext.Result[Any]
    past: ext.Operand[ir.IndexType] | None = None
    start: ext.Operand[Any] | None = None

    @verified
    def verify_invariants(self) -> None:
        """Checks batch, heads, tokens and channels across operands."""
        batch, heads, tokens, channels = tensor_of(self.query, "query", 4)
        floats("query", self.query)
        groups = tensor_of(self.key, "key", 4)[1]
        for name, operand in (("key", self.key), ("value", self.value)):
            shape = tensor_of(operand, name, 4)
            floats(name, operand, widened_to=self.query)
            static(name, operand, 1, 3)
            same(name, "its batch", shape[0], batch)
            same(name, "its heads", shape[1], groups)
        filled("key", self.key, 1)
        same("key", "its channels", tensor_of(self.key, "key")[3], channels)
        same(
            "value", "its tokens", tensor_of(self.value, "value")[2], tensor_of(self.key, "key")[2]
        )
        static("query", self.query, 1)
        multiple("query", "its heads", heads, groups)
        if self.start is not None:
            same("start", "its length", tensor_of(self.start, "start", 1)[0], batch)
            integers("start", self.start)
        number("scale", self.scale, self.query)
        counts("window", self.window, least=0)
        divisor("softcap", self.softcap, self.query)
        shaped("out", self.out, [batch, heads, tokens, tensor_of(self.value, "value")[3]])
        same_element("out", self.out, self.query)

    def sharding(self) -> ShardingRule:
        """By sequences, by heads with the key heads that they share, or by columns of the keys."""
        shared = self.query.type.shape[1] // self.key.type.shape[1]
        return by_letters(
            self,
            averages="s",
            groups={"h": shared},
            dims={"g": Dim("h", Fraction(1, shared))},
            query="bh..",
            key="bgs.",
            value="bgs.",
            start="b",
            out="bh..",
        )

    @staticmethod
    def reference(
        query: np.ndarray,
        key: np.ndarray,
        value: np.ndarray,
        scale: float,
        window: int = 0,
        softcap: float = 0.0,
        past: int = 0,
        start: np.ndarray | None = None,
    ) -> np.ndarray:
        """`[B, H, T, D]`, `[B, G, S, D]`, `[B, G, S, E]` -> `[B, H, T, E]`, row by row."""
        batch, heads, tokens, _ = query.shape
        groups = heads // key.shape[1]
        out = np.zeros((batch, heads, tokens, value.shape[3]), query.dtype)
        for b, h, t in np.ndindex(batch, heads, tokens):
            last = past + t
            first = max(0 if start is None else start[b], last + 1 - window if window else 0)
            if first > last:
                continue
            seen = b, h // groups, slice(first, last + 1)
            scores = key[seen] @ query[b, h, t] * scale
            if softcap:
                scores = softcap * np.tanh(scores / softcap)
            weights = np.exp(scores - scores.max())
            out[b, h, t] = weights @ value[seen] / weights.sum()
        return out

    def lower(self) -> ir.Value:
        """Scores, their softmax, and the weighted sum of values."""
        scores = masked_scores(self, lambda column: column)
        room = tensor.empty(sizes(scores), scores.type.element_type)
        weights = linalg.softmax([scores.type], scores, room, 4)
        mixed = contract("bghts,bgsd->bghtd", weights, self.value)
        return collapse(mixed, [1, 2, 1, 1])


def hidden_score(element: ir.Type) -> ir.Value:
    """The score of a column that a row does not see."""
    return constant(_HIDDEN_F16 if str(element) == "f16" else HIDDEN, element)


def masked_scores(op: AttentionOp, place: Callable[[ir.Value], ir.Value]) -> ir.Value:
    """Scores `[B, G, H / G, T, S]` of attention, those of columns that a row does not see hidden.

    `place` says which column of the whole a column of the keys is.
    """
    batch, heads, tokens, channels = sizes(op.query)
    groups = op.key.type.get_dim_size(1)
    query = expand(op.query, [[batch], [groups, heads // groups], [tokens], [channels]])
    scores = contract("bghtd,bgsd->bghts", query, op.key)
    element = scores.type.element_type
    past = index(0) if op.past is None else op.past
    operands = [scores] if op.start is None else [scores, op.start]

    def point(score: ir.Value, *rest: ir.Value) -> ir.Value:
        score = arith.mulf(score, constant(op.scale.value, element))
        if op.softcap.value:
            cap = constant(op.softcap.value, element)
            score = arith.mulf(math.tanh(arith.divf(score, cap)), cap)
        row, column = arith.addi(past, loop_index(3)), place(loop_index(4))
        seen = arith.cmpi(arith.CmpIPredicate.sle, column, row)
        if op.window.value:
            edge = arith.addi(column, index(op.window.value))
            seen = arith.andi(seen, arith.cmpi(arith.CmpIPredicate.sgt, edge, row))
        if op.start is not None:
            first = arith.index_cast(T.index(), rest[0])
            seen = arith.andi(seen, arith.cmpi(arith.CmpIPredicate.sge, column, first))
        return arith.select(seen, score, hidden_score(element))

    notation = "bghts->bghts" if op.start is None else "bghts,b->bghts"
    return pointwise(notation, point, *operands)
