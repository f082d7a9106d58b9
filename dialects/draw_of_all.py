"""`llmc.draw_of_all`: the next token, by chance, where the most likely ones do not tell."""

from collections.abc import Callable
from math import inf
from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, ext, tensor
from torch_mlir.extras import types as T

from llmc.dialects.checks import at_most, tensor_of, verified
from llmc.dialects.draw import check_draw, numbers_of
from llmc.dialects.index_notation import as_value, constant, index, loop_index, pointwise, size
from llmc.dialects.llmc import Operation
from llmc.dialects.running_sums import add_up, fold, reach
from llmc.dialects.token_weights import TokenWeights, alike
from llmc.runtime.abi import CANDIDATES, UNDECIDED

_Float = arith.CmpFPredicate

_BITS = 31
"""Of a float without its sign."""


class DrawOfAllOp(Operation, name="draw_of_all", traits=[ext.Pure]):
    """Where `found [R]` is -2, one of all tokens by a number of `random [R]`; elsewhere `found`.

    `values` and `tokens [R, C]`, C being 256 at most, are the largest of `logits [R, V]` and where
    they stand, as `llmc.top_k` gives them, and `options` those of `llmc.draw`. Tokens are drawn in
    the order of `tokens`, and after these the others in their own. Of top_p, those are kept, too,
    that are as likely as the least of those kept.

        %token = "llmc.draw_of_all"(%found, %logits, %values, %tokens, %random, %options)
          : (tensor<1xi64>, tensor<1x49152xf32>, tensor<1x?xf32>, tensor<1x?xi64>, tensor<1xf32>,
             tensor<3xf32>) -> tensor<1xi64>
    """

    found: ext.Operand[Any]
    logits: ext.Operand[Any]
    values: ext.Operand[Any]
    tokens: ext.Operand[Any]
    random: ext.Operand[Any]
    options: ext.Operand[Any]
    out: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks extents and element types."""
        check_draw(self, "found")
        _, count = tensor_of(self.values, "values", 2)
        at_most("values", "a last dimension", count, CANDIDATES)

    @staticmethod
    def reference(
        found: np.ndarray,
        logits: np.ndarray,
        values: np.ndarray,
        tokens: np.ndarray,
        random: np.ndarray,
        options: np.ndarray,
    ) -> np.ndarray:
        """`logits [R, V]`, `values`, `tokens` `[R, C]`, two `[R]`, `options [3]` -> int64 `[R]`."""
        temperature, top_p, min_p = options
        weights = np.exp((logits - values[:, :1]) / temperature)
        falling = -np.sort(-weights, axis=1)
        before = np.cumsum(falling, axis=1) - falling
        border = top_p * weights.sum(axis=1, keepdims=True) if top_p < 1 else np.inf
        least = np.where(before < border, falling, np.inf).min(axis=1, keepdims=True)
        weights = np.where((weights >= least) & (weights >= min_p), weights, 0)
        others = np.ones(logits.shape, np.bool_)
        np.put_along_axis(others, tokens, False, 1)
        rest = [np.flatnonzero(row) for row in others]
        order = np.concatenate([tokens, np.reshape(rest, (len(logits), -1))], axis=1)
        sums = np.cumsum(np.take_along_axis(weights, order, 1), axis=1)
        total = sums[:, -1:]
        place = ((sums <= random[:, None] * total) & (sums < total)).sum(axis=1)
        drawn = np.take_along_axis(order, place[:, None], 1)[:, 0]
        return np.where(found == UNDECIDED, drawn, found)

    def lower(self) -> ir.Value:
        """Loops over all weights of a row, the candidates' first, for each step of the search."""
        temperature, top_p, min_p = (tensor.extract(self.options, [index(at)]) for at in range(3))
        count = as_value(size(self.values, 1))
        columns = arith.addi(count, index(self.logits.type.shape[1]))

        def draw(found: ir.Value, random: ir.Value, _: ir.Value) -> ir.Value:
            row = loop_index(0)
            values, tokens, logits = (
                numbers_of(x, row) for x in (self.values, self.tokens, self.logits)
            )
            weights = TokenWeights(values, tokens, count, temperature)

            def weigh(place: ir.Value) -> ir.Value:
                token = other_token(place, count)
                of_rest = weights.of_rest(logits(token), arith.index_cast(found.type, token))
                candidate = weights.of_candidate(arith.minui(place, weights.last))
                return arith.select(is_candidate(place, count), candidate, of_rest)

            def sum_above(bits: ir.Value) -> ir.Value:
                return add_up(lambda place: if_above(bits, weigh(place)), columns, random.type)

            least = least_of_nucleus(sum_above, top_p)

            def keep(place: ir.Value) -> ir.Value:
                return if_kept(weigh(place), least, min_p)

            total = add_up(keep, columns, random.type)
            place, _ = reach(keep, columns, arith.mulf(random, total), total)
            candidate = tokens(arith.minui(place, weights.last))
            other = arith.index_cast(found.type, other_token(place, count))
            drawn = arith.select(is_candidate(place, count), candidate, other)
            return arith.select(is_undecided(found), drawn, found)

        return pointwise("r,r->r", draw, self.found, self.random)


def is_undecided(token: ir.Value) -> ir.Value:
    """Whether it is still to be drawn."""
    return arith.cmpi(arith.CmpIPredicate.eq, token, constant(UNDECIDED, token.type))


def is_candidate(place: ir.Value, count: ir.Value) -> ir.Value:
    """Whether one of `count` candidates stands at a place of all weights."""
    return arith.cmpi(arith.CmpIPredicate.ult, place, count)


def other_token(place: ir.Value, count: ir.Value) -> ir.Value:
    """Which of all tokens stands at a place of all weights; 0 where a candidate does."""
    return arith.subi(arith.maxui(place, count), count)


def if_above(bits: ir.Value, weight: ir.Value) -> ir.Value:
    """A weight, or each of a vector of them, if its bits, an i32, are above these; else 0.

    Of floats that are not negative, the larger has the larger bits.
    """
    bits, zero = alike(bits, weight), alike(constant(0.0, T.f32()), weight)
    own = arith.bitcast(bits.type, weight)
    return arith.select(arith.cmpi(arith.CmpIPredicate.ugt, own, bits), weight, zero)


def if_kept(weight: ir.Value, least: ir.Value, min_p: ir.Value) -> ir.Value:
    """As `if_above`, and if the weight is `min_p` at least."""
    min_p, zero = (alike(x, weight) for x in (min_p, constant(0.0, T.f32())))
    return arith.select(arith.cmpf(_Float.OGE, weight, min_p), if_above(least, weight), zero)


def least_of_nucleus(sum_above: Callable[[ir.Value], ir.Value], share: ir.Value) -> ir.Value:
    """The bits above which are the fewest of the largest weights that have a `share` of their sum.

    `sum_above(bits)` is the sum of the weights whose bits are above. The search is for the largest
    weight above which there is enough, from its first bits on. With a share of 1 all are kept.
    """
    none = constant(0, T.i32())
    is_part = arith.cmpf(_Float.OLT, share, constant(1.0, share.type))
    part = arith.mulf(share, sum_above(none))
    enough = arith.select(is_part, part, constant(inf, share.type))

    def add_bit(number: ir.Value, found: ir.Value) -> list[ir.Value]:
        place = arith.index_cast(none.type, arith.subi(index(_BITS - 1), number))
        more = arith.ori(found, arith.shli(constant(1, none.type), place))
        is_enough = arith.cmpf(_Float.OGE, sum_above(more), enough)
        return [arith.select(is_enough, more, found)]

    return fold(lambda number: number, index(_BITS), [none], add_bit)[0]
