"""`llmc.scored_route`: experts chosen by scores, a bias that evens their load, and groups."""

from math import inf
from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, ext, math, tensor
from torch_mlir.extras import types as T

from llmc.dialects.checks import (
    counts,
    element_is,
    flag,
    number,
    require,
    same,
    tensor_of,
    verified,
)
from llmc.dialects.index_notation import (
    collapse,
    constant,
    expand,
    loop_index,
    pointwise,
    reduce,
    size,
)
from llmc.dialects.llmc import Operation
from llmc.dialects.route import chosen_of, powers_of
from llmc.dialects.top_k import TopKOp, ranks_of, select_largest


class ScoredRouteOp(Operation, name="scored_route", traits=[ext.Pure]):
    """The C experts of each row of `logits [R, E]` with the largest score and `bias [E]` together.

    Scores are the softmax of a row, or with `sigmoid` 1 that of each logit. Experts come in
    descending order of the sums, equal ones in that of their places. Their weights are their
    scores, without the bias: `normalised` 1, scaled to a sum of 1; all times `scale`. Of `groups`,
    into which experts are cut in their order, only `kept_groups` count: those whose `best` largest
    sums are together largest, the first of equal ones. They must have C experts. What is found in a
    row that holds NaN is undefined. DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, 2.1.2.

        %weights, %experts = "llmc.scored_route"(%logits, %bias)
          {best = 2 : i64, groups = 8 : i64, kept_groups = 4 : i64, normalised = 1 : i64,
           operandSegmentSizes = array<i32: 1, 1>, scale = 2.5 : f64, sigmoid = 1 : i64}
          : (tensor<?x32xf32>, tensor<32xf32>) -> (tensor<?x8xf32>, tensor<?x8xi64>)
    """

    logits: ext.Operand[Any]
    sigmoid: ir.IntegerAttr
    normalised: ir.IntegerAttr
    scale: ir.FloatAttr
    groups: ir.IntegerAttr
    kept_groups: ir.IntegerAttr
    best: ir.IntegerAttr
    weights: ext.Result[Any]
    experts: ext.Result[Any]
    bias: ext.Operand[Any] | None = None

    @verified
    def verify_invariants(self) -> None:
        """Checks extents, element types and the numbers of groups."""
        experts = chosen_of(self.logits, self.weights, self.experts)
        if self.bias is not None:
            same("bias", "its length", tensor_of(self.bias, "bias", 1)[0], experts)
            element_is("bias", self.bias, "f32")
        number("scale", self.scale, self.logits)
        flag("sigmoid", self.sigmoid)
        flag("normalised", self.normalised)
        self._verify_groups(experts, self.weights.type.shape[1])

    def _verify_groups(self, experts: int, chosen: int) -> None:
        for name, attribute in (
            ("groups", self.groups),
            ("kept_groups", self.kept_groups),
            ("best", self.best),
        ):
            counts(name, attribute)
        groups, kept, best = (a.value for a in (self.groups, self.kept_groups, self.best))
        require(experts % groups == 0, f"must divide {experts}, but is {groups}", "groups")
        require(kept <= groups, f"must be at most {groups}, but is {kept}", "kept_groups")
        each = experts // groups
        require(best <= each, f"must be at most {each}, but is {best}", "best")
        found = kept * each
        require(chosen <= found, f"must have {chosen} experts, but has {found}", "kept_groups")

    @staticmethod
    def reference(
        logits: np.ndarray,
        bias: np.ndarray | None,
        count: int,
        sigmoid: bool,
        normalised: bool,
        scale: float,
        groups: int,
        kept_groups: int,
        best: int,
    ) -> tuple[np.ndarray, np.ndarray]:
        """`logits [R, E]`, `bias [E]` -> float32 and int64 `[R, count]`."""
        powers = np.exp(logits - logits.max(1, keepdims=True))
        scores = 1 / (1 + np.exp(-logits)) if sigmoid else powers / powers.sum(1, keepdims=True)
        sums = scores if bias is None else scores + bias
        grouped = sums.reshape(len(sums), groups, -1)
        totals = np.sort(grouped, axis=2)[:, :, -best:].sum(2)
        _, kept = TopKOp.reference(totals, kept_groups)
        counted = (kept[:, :, None] == np.arange(groups)).any(1)[:, :, None]
        limited = np.where(counted, grouped, -np.inf).reshape(sums.shape)
        _, experts = TopKOp.reference(limited, count)
        chosen = np.take_along_axis(scores, experts, axis=1)
        return chosen * scale / (chosen.sum(1, keepdims=True) if normalised else 1), experts

    def lower(self) -> list[ir.Value]:
        """The scores, the experts of the largest sums that count, and the scores that stand there.

        A group counts whose rank is among the first.
        """
        scores = _sigmoid(self.logits) if self.sigmoid.value else _softmax(self.logits)
        sums = scores
        if self.bias is not None:
            sums = pointwise("re,e->re", lambda x, bias, _: arith.addf(x, bias), scores, self.bias)
        if self.groups.value > 1:
            sums = self._limited(sums)
        _, experts = select_largest(sums, self.weights.type.shape[1])

        def score_of(expert: ir.Value, _: ir.Value) -> ir.Value:
            place = arith.index_cast(T.index(), expert)
            return tensor.extract(scores, [loop_index(0), place])

        chosen = pointwise("rc->rc", score_of, experts, element=scores.type.element_type)
        scale = constant(self.scale.value, scores.type.element_type)
        weights = pointwise("rc->rc", lambda x, _: arith.mulf(x, scale), chosen)
        if self.normalised.value:
            total = reduce("rc->r", arith.addf, 0.0, chosen)
            weights = pointwise("rc,r->rc", lambda x, sum_, _: arith.divf(x, sum_), weights, total)
        return [weights, experts]

    def _limited(self, sums: ir.Value) -> ir.Value:
        """The sums of experts in groups that count, and else less than any."""
        rows, (_, experts) = size(sums, 0), sums.type.shape
        groups, type_ = self.groups.value, sums.type.element_type
        grouped = expand(sums, [[rows], [groups, experts // groups]])
        best, _ = select_largest(collapse(grouped, [2, 1]), self.best.value)
        totals = reduce("qb->q", arith.addf, 0.0, best)
        ranks = ranks_of(expand(totals, [[rows, groups]]))
        kept = constant(self.kept_groups.value, ranks.type.element_type)

        def limit(sum_: ir.Value, rank: ir.Value, _: ir.Value) -> ir.Value:
            is_kept = arith.cmpi(arith.CmpIPredicate.ult, rank, kept)
            return arith.select(is_kept, sum_, constant(-inf, type_))

        return collapse(pointwise("rge,rg->rge", limit, grouped, ranks), [1, 2])


def sigmoid(x: ir.Value, one: ir.Value) -> ir.Value:
    """The sigmoid of a float, or of each of a vector of them, `one` being as many."""
    return arith.divf(one, arith.addf(one, math.exp(arith.negf(x))))


def _sigmoid(x: ir.Value) -> ir.Value:
    one = constant(1.0, x.type.element_type)
    return pointwise("re->re", lambda number, _: sigmoid(number, one), x)


def _softmax(x: ir.Value) -> ir.Value:
    powers = powers_of(x)
    total = reduce("re->r", arith.addf, 0.0, powers)
    return pointwise("re,r->re", lambda x, sum_, _: arith.divf(x, sum_), powers, total)
