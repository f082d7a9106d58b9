"""`llmc.draw`: the next token, by chance, of the most likely ones."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, ext, math, tensor
from torch_mlir.extras import types as T

from llmc.dialects.argmax import equal
from llmc.dialects.checks import element_is, same, shaped, tensor_of, verified
from llmc.dialects.index_notation import as_value, constant, index, loop_index, pointwise, size
from llmc.dialects.llmc import Operation
from llmc.dialects.reach import add_up, fold, reach
from llmc.runtime.abi import UNDECIDED

_Float = arith.CmpFPredicate


class DrawOp(Operation, name="draw", traits=[ext.Pure]):
    """One of the first `count` of each row of `tokens [R, C]`, by a number of `random [R]`.

    `values [R, C]` are their logits, descending. `options` are a temperature above 0, top_p and
    min_p: probabilities are the softmax of the logits divided by the first. The fewest tokens that
    have `top_p` of all of it are kept, the most likely first, of these such as have `min_p` times
    that of the first; of them the one is drawn up to which, in this order, there is more than
    `random` of what they have, a number from 0 to 1. `rest [R]` is what less likely tokens have,
    which may be drawn, too, where the first one has 1. Where `best [R]` is negative, that is drawn;
    where it would be one of the rest, or depends on what each of them has, or where logit `count`,
    if there is one, is equal to the one before, -2 is. `count` is at least 1.

        %token = "llmc.draw"(%values, %tokens, %rest, %best, %random, %options, %count)
          : (tensor<1x?xf32>, tensor<1x?xi64>, tensor<1xf32>, tensor<1xi64>, tensor<1xf32>,
             tensor<3xf32>, index) -> tensor<1xi64>
    """

    values: ext.Operand[Any]
    tokens: ext.Operand[Any]
    rest: ext.Operand[Any]
    best: ext.Operand[Any]
    random: ext.Operand[Any]
    options: ext.Operand[Any]
    count: ext.Operand[ir.IndexType]
    out: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks extents and element types."""
        rows, columns = tensor_of(self.values, "values", 2)
        shaped("tokens", self.tokens, [rows, columns])
        for name in ("rest", "best", "random", "out"):
            same(name, "its length", tensor_of(getattr(self, name), name, 1)[0], rows)
        shaped("options", self.options, [3])
        for name in ("values", "rest", "random", "options"):
            element_is(name, getattr(self, name), "f32")
        for name in ("tokens", "best", "out"):
            element_is(name, getattr(self, name), "i64")

    @staticmethod
    def reference(
        values: np.ndarray,
        tokens: np.ndarray,
        rest: np.ndarray,
        best: np.ndarray,
        random: np.ndarray,
        options: np.ndarray,
        count: int,
    ) -> np.ndarray:
        """`values`, `tokens` `[R, C]`, three `[R]`, `options [3]` -> int64 `[R]`."""
        temperature, top_p, min_p = options
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
        tied = values[:, count] == values[:, count - 1] if count < values.shape[1] else False
        undecided = tied | (place == count) | (goes_on & (not takes_all))
        return np.where(best < 0, best, np.where(undecided, UNDECIDED, drawn))

    def lower(self) -> ir.Value:
        """Loops over the candidates of a row: their weight, that of those kept, and the drawn."""
        options = [tensor.extract(self.options, [index(at)]) for at in range(3)]
        columns = as_value(size(self.values, 1))

        def draw(rest: ir.Value, best: ir.Value, random: ir.Value, _: ir.Value) -> ir.Value:
            row = loop_index(0)
            candidates = _Candidates(self.values, row, self.count, *options)
            place, is_undecided = candidates.draw(rest, random)
            token = tensor.extract(self.tokens, [row, candidates.within(place)])
            is_undecided = arith.ori(is_undecided, candidates.tie(columns))
            return _settled(token, best, is_undecided)

        return pointwise(
            "r,r,r->r", draw, self.rest, self.best, self.random, element=self.best.type.element_type
        )


@dataclass(frozen=True)
class _Candidates:
    """The first `count` logits of a row of `values [R, C]`, and how to choose among them."""

    values: ir.Value
    row: ir.Value
    count: ir.Value
    temperature: ir.Value
    top_p: ir.Value
    min_p: ir.Value

    def draw(self, rest: ir.Value, random: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The place of the one which `random` draws, and whether they do not tell."""
        total, is_unknown = self._weigh_kept(rest)
        place, _ = reach(self._weight, self.count, arith.mulf(random, total), total)
        is_of_rest = arith.cmpi(arith.CmpIPredicate.uge, place, self.count)
        return place, arith.ori(is_of_rest, is_unknown)

    def _weigh_kept(self, rest: ir.Value) -> tuple[ir.Value, ir.Value]:
        """What those kept weigh, and whether it depends on what each of the rest does."""
        zero = constant(0.0, rest.type)
        sum_ = add_up(self._weight, self.count, zero.type)
        border = arith.mulf(self.top_p, arith.addf(sum_, rest))

        def keep(weight: ir.Value, before: ir.Value, kept: ir.Value, _: ir.Value) -> list[ir.Value]:
            likely = arith.cmpf(_Float.OGE, weight, self.min_p)
            first = arith.cmpf(_Float.OEQ, before, zero)
            is_kept = arith.andi(likely, arith.ori(first, arith.cmpf(_Float.OLT, before, border)))
            more = arith.select(is_kept, weight, zero)
            return [arith.addf(before, weight), arith.addf(kept, more), likely]

        false = constant(0, T.bool())
        _, kept, is_last_likely = fold(self._weight, self.count, [zero, zero, false], keep)
        is_within = arith.andi(is_last_likely, arith.cmpf(_Float.OLT, sum_, border))
        goes_on = arith.andi(is_within, arith.cmpf(_Float.OGT, rest, zero))
        is_filtered = arith.ori(
            arith.cmpf(_Float.OLT, self.top_p, constant(1.0, zero.type)),
            arith.cmpf(_Float.OGT, self.min_p, zero),
        )
        more = arith.select(goes_on, rest, zero)
        return arith.addf(kept, more), arith.andi(goes_on, is_filtered)

    def within(self, place: ir.Value) -> ir.Value:
        """`place`, or that of the last of them."""
        return arith.minui(place, arith.subi(self.count, index(1)))

    def tie(self, columns: ir.Value) -> ir.Value:
        """Whether the last of them ties with the next, if there is one among so many `columns`."""
        last = arith.subi(self.count, index(1))
        after = arith.minui(self.count, arith.subi(columns, index(1)))
        is_next = arith.cmpi(arith.CmpIPredicate.ult, self.count, columns)
        return arith.andi(is_next, equal(self._logit(last), self._logit(after)))

    def _weight(self, place: ir.Value) -> ir.Value:
        less = arith.subf(self._logit(place), self._logit(index(0)))
        return math.exp(arith.divf(less, self.temperature))

    def _logit(self, place: ir.Value) -> ir.Value:
        return tensor.extract(self.values, [self.row, place])


def _settled(token: ir.Value, best: ir.Value, is_undecided: ir.Value) -> ir.Value:
    """The token, unless that is `best` or none."""
    zero = constant(0, best.type)
    drawn = arith.select(is_undecided, constant(UNDECIDED, best.type), token)
    return arith.select(arith.cmpi(arith.CmpIPredicate.slt, best, zero), best, drawn)
