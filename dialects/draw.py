"""`llmc.draw`: the next token, by chance, of the most likely ones."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, ext, tensor
from torch_mlir.extras import types as T

from llmc.dialects.argmax import equal, rows_of_floats
from llmc.dialects.checks import element_is, same, shaped, tensor_of, verified
from llmc.dialects.index_notation import as_value, constant, index, loop_index, pointwise, size
from llmc.dialects.llmc import Operation
from llmc.dialects.running_sums import Numbers, add_up, fold, reach
from llmc.dialects.token_weights import TokenWeights
from llmc.runtime.abi import UNDECIDED

_Float = arith.CmpFPredicate


class DrawOp(Operation, name="draw", traits=[ext.Pure]):
    """One of the most likely tokens of each row of `logits [R, V]`, by a number of `random [R]`.

    `values` and `tokens [R, C]` are the largest logits and where they stand, as `llmc.top_k` gives
    them. Of these the first `top_k` are candidates, or, where it is 0, all; the rest, which then
    may be drawn, too, are all other tokens.

    `options` are a temperature above 0, top_p and min_p: probabilities are the softmax of the
    logits divided by the first. The fewest tokens that have `top_p` of all of it are kept, the most
    likely first, of these such as have `min_p` times that of the first; of them the one is drawn up
    to which, in this order, there is more than `random` of what they have, a number from 0 to 1.

    Where `best [R]` is negative, that is drawn. It is -2 where it would be one of the rest, or
    depends on what each of them has, or where another token ties with the last of `top_k`.

        %token = "llmc.draw"(%logits, %values, %tokens, %best, %random, %options, %top_k)
          : (tensor<1x49152xf32>, tensor<1x?xf32>, tensor<1x?xi64>, tensor<1xi64>, tensor<1xf32>,
             tensor<3xf32>, index) -> tensor<1xi64>
    """

    logits: ext.Operand[Any]
    values: ext.Operand[Any]
    tokens: ext.Operand[Any]
    best: ext.Operand[Any]
    random: ext.Operand[Any]
    options: ext.Operand[Any]
    top_k: ext.Operand[ir.IndexType]
    out: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks extents and element types."""
        check_draw(self, "best")

    @staticmethod
    def reference(
        logits: np.ndarray,
        values: np.ndarray,
        tokens: np.ndarray,
        best: np.ndarray,
        random: np.ndarray,
        options: np.ndarray,
        top_k: int,
    ) -> np.ndarray:
        """`logits [R, V]`, `values`, `tokens` `[R, C]`, two `[R]`, `options [3]` -> int64 `[R]`."""
        temperature, top_p, min_p = options
        columns = values.shape[1]
        count = min(top_k or columns, columns)
        all_weights = np.exp((logits - values[:, :1]) / temperature)
        np.put_along_axis(all_weights, tokens, 0, 1)
        rest = np.zeros_like(random) if top_k else all_weights.sum(1)
        weights = np.exp((values[:, :count] - values[:, :1]) / temperature)
        before = np.cumsum(weights, 1) - weights
        border = top_p * (weights.sum(1) + rest)
        kept = (before < border[:, None]) & (weights >= min_p)
        kept[:, 0] = True
        sums = np.cumsum(np.where(kept, weights, 0), 1)
        goes_on = (rest > 0) & (weights.sum(1) < border) & (weights[:, -1] >= min_p)
        takes_all = top_p >= 1 and min_p <= 0
        total = sums[:, -1] + np.where(goes_on & takes_all, rest, 0)
        passed = (sums <= (random * total)[:, None]) & (sums < total[:, None])
        place = passed.sum(1)
        drawn = np.take_along_axis(tokens, np.minimum(place, count - 1)[:, None], 1)[:, 0]
        tied = values[:, count] == values[:, count - 1] if count < columns else False
        undecided = tied | (place == count) | (goes_on & (not takes_all))
        return np.where(best < 0, best, np.where(undecided, UNDECIDED, drawn))

    def lower(self) -> ir.Value:
        """Loops over the candidates of a row: their weight, that of those kept, and the drawn."""
        options = [tensor.extract(self.options, [index(at)]) for at in range(3)]
        columns = as_value(size(self.values, 1))
        vocabulary = index(self.logits.type.shape[1])

        def draw(best: ir.Value, random: ir.Value, _: ir.Value) -> ir.Value:
            row = loop_index(0)
            values, tokens, logits = (
                numbers_of(x, row) for x in (self.values, self.tokens, self.logits)
            )
            candidates = Candidates.of(values, tokens, columns, self.top_k, options)

            def weigh_rest(token: ir.Value) -> ir.Value:
                own = arith.index_cast(best.type, token)
                return candidates.weights.of_rest(logits(token), own)

            others = add_up(weigh_rest, vocabulary, random.type)
            rest = arith.select(candidates.are_of_all, others, constant(0.0, others.type))
            return candidates.draw(rest, best, random)

        return pointwise("r,r->r", draw, self.best, self.random)


def check_draw(op: Any, given: str) -> None:
    """Checks what draws by `options` and `random` of `logits`, whose largest are `values`.

    `given` is the operand that holds tokens which are known.
    """
    rows = rows_of_floats("logits", op.logits)
    found, columns = tensor_of(op.values, "values", 2)
    same("values", "dimension 0", found, rows)
    shaped("tokens", op.tokens, [found, columns])
    shaped("options", op.options, [3])
    for name in (given, "random", "out"):
        same(name, "its length", tensor_of(getattr(op, name), name, 1)[0], rows)
    for name in ("logits", "values", "random", "options"):
        element_is(name, getattr(op, name), "f32")
    for name in ("tokens", given, "out"):
        element_is(name, getattr(op, name), "i64")


def numbers_of(x: ir.Value, row: ir.Value) -> Numbers:
    """Those of a row of the tensor `x [R, N]`."""
    return lambda place: tensor.extract(x, [row, place])


@dataclass(frozen=True)
class Candidates:
    """The most likely tokens of a row, `columns` in all, and how to choose among the first."""

    weights: TokenWeights
    columns: ir.Value
    top_k: ir.Value
    top_p: ir.Value
    min_p: ir.Value

    @staticmethod
    def of(
        values: Numbers,
        tokens: Numbers,
        columns: ir.Value,
        top_k: ir.Value,
        options: list[ir.Value],
    ) -> "Candidates":
        """Those of `values` and `tokens`, by `options`: temperature, top_p and min_p."""
        temperature, *shares = options
        given = arith.select(_is_zero(top_k), columns, top_k)
        weights = TokenWeights(values, tokens, arith.minui(given, columns), temperature)
        return Candidates(weights, columns, top_k, *shares)

    @property
    def are_of_all(self) -> ir.Value:
        """Whether the rest may be drawn, too."""
        return _is_zero(self.top_k)

    def draw(self, rest: ir.Value, best: ir.Value, random: ir.Value) -> ir.Value:
        """The token that `random` draws, the rest weighing so much; -2 where they do not tell."""
        total, is_unknown = self._weigh_kept(rest)
        wanted = arith.mulf(random, total)
        place, _ = reach(self.weights.of_candidate, self.weights.count, wanted, total)
        is_of_rest = arith.cmpi(arith.CmpIPredicate.uge, place, self.weights.count)
        is_undecided = arith.ori(arith.ori(is_of_rest, is_unknown), self._tie())
        token = self.weights.tokens(arith.minui(place, self.weights.last))
        drawn = arith.select(is_undecided, constant(UNDECIDED, best.type), token)
        is_none = arith.cmpi(arith.CmpIPredicate.slt, best, constant(0, best.type))
        return arith.select(is_none, best, drawn)

    def _weigh_kept(self, rest: ir.Value) -> tuple[ir.Value, ir.Value]:
        """What those kept weigh, and whether it depends on what each of the rest does."""
        zero = constant(0.0, rest.type)
        weigh, count = self.weights.of_candidate, self.weights.count
        sum_ = add_up(weigh, count, zero.type)
        border = arith.mulf(self.top_p, arith.addf(sum_, rest))

        def keep(weight: ir.Value, before: ir.Value, kept: ir.Value, _: ir.Value) -> list[ir.Value]:
            likely = arith.cmpf(_Float.OGE, weight, self.min_p)
            first = arith.cmpf(_Float.OEQ, before, zero)
            is_kept = arith.andi(likely, arith.ori(first, arith.cmpf(_Float.OLT, before, border)))
            more = arith.select(is_kept, weight, zero)
            return [arith.addf(before, weight), arith.addf(kept, more), likely]

        false = constant(0, T.bool())
        _, kept, is_last_likely = fold(weigh, count, [zero, zero, false], keep)
        is_within = arith.andi(is_last_likely, arith.cmpf(_Float.OLT, sum_, border))
        goes_on = arith.andi(is_within, arith.cmpf(_Float.OGT, rest, zero))
        is_filtered = arith.ori(
            arith.cmpf(_Float.OLT, self.top_p, constant(1.0, zero.type)),
            arith.cmpf(_Float.OGT, self.min_p, zero),
        )
        more = arith.select(goes_on, rest, zero)
        return arith.addf(kept, more), arith.andi(goes_on, is_filtered)

    def _tie(self) -> ir.Value:
        """Whether the last of them ties with the next, if there is one."""
        count, values = self.weights.count, self.weights.values
        after = arith.minui(count, arith.subi(self.columns, index(1)))
        is_next = arith.cmpi(arith.CmpIPredicate.ult, count, self.columns)
        return arith.andi(is_next, equal(values(self.weights.last), values(after)))


def _is_zero(number: ir.Value) -> ir.Value:
    return arith.cmpi(arith.CmpIPredicate.eq, number, index(0))
