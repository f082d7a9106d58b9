"""`llmc.biased_route`: experts chosen with the help of a bias that keeps their load even."""

from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, ext, math, tensor

from llmc.dialects.checks import element_is, flag, same, tensor_of, verified
from llmc.dialects.index_notation import constant, loop_index, pointwise, reduce
from llmc.dialects.llmc import Operation
from llmc.dialects.route import chosen_of, powers_of
from llmc.dialects.top_k import TopKOp, select_largest


class BiasedRouteOp(Operation, name="biased_route", traits=[ext.Pure]):
    """The C experts of each row of `logits [R, E]` with the largest score and `bias [E]` together.

    Scores are the softmax of a row, or with `sigmoid` 1 that of each logit. Experts come in
    descending order of the sums, equal ones in that of their places. Their weights are their
    scores, without the bias: `normalised` 1, scaled to a sum of 1; all times `scale`. What is found
    in a row that holds NaN is undefined. DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, 2.1.2.

        %weights, %experts = "llmc.biased_route"(%logits, %bias)
          {normalised = 1 : i64, scale = 2.5 : f64, sigmoid = 1 : i64}
          : (tensor<?x32xf32>, tensor<32xf32>) -> (tensor<?x8xf32>, tensor<?x8xi64>)
    """

    logits: ext.Operand[Any]
    bias: ext.Operand[Any]
    sigmoid: ir.IntegerAttr
    normalised: ir.IntegerAttr
    scale: ir.FloatAttr
    weights: ext.Result[Any]
    experts: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks extents and element types."""
        experts = chosen_of(self.logits, self.weights, self.experts)
        same("bias", "its length", tensor_of(self.bias, "bias", 1)[0], experts)
        element_is("bias", self.bias, "f32")
        flag("sigmoid", self.sigmoid)
        flag("normalised", self.normalised)

    @staticmethod
    def reference(
        logits: np.ndarray,
        bias: np.ndarray,
        count: int,
        sigmoid: bool,
        normalised: bool,
        scale: float,
    ) -> tuple[np.ndarray, np.ndarray]:
        """`logits [R, E]`, `bias [E]` -> float32 and int64 `[R, count]`."""
        powers = np.exp(logits - logits.max(1, keepdims=True))
        scores = 1 / (1 + np.exp(-logits)) if sigmoid else powers / powers.sum(1, keepdims=True)
        _, experts = TopKOp.reference(scores + bias, count)
        chosen = np.take_along_axis(scores, experts, axis=1)
        return chosen * scale / (chosen.sum(1, keepdims=True) if normalised else 1), experts

    def lower(self) -> list[ir.Value]:
        """The scores, the experts of the largest sums, and the scores that stand there."""
        scores = _sigmoid(self.logits) if self.sigmoid.value else _softmax(self.logits)
        sums = pointwise("re,e->re", lambda x, bias, _: arith.addf(x, bias), scores, self.bias)
        _, experts = select_largest(sums, self.weights.type.shape[1])

        def score_of(expert: ir.Value, _: ir.Value) -> ir.Value:
            place = arith.index_cast(ir.IndexType.get(), expert)
            return tensor.extract(scores, [loop_index(0), place])

        chosen = pointwise("rc->rc", score_of, experts, element=scores.type.element_type)
        scale = constant(self.scale.value, scores.type.element_type)
        weights = pointwise("rc->rc", lambda x, _: arith.mulf(x, scale), chosen)
        if self.normalised.value:
            total = reduce("rc->r", arith.addf, 0.0, chosen)
            weights = pointwise("rc,r->rc", lambda x, sum_, _: arith.divf(x, sum_), weights, total)
        return [weights, experts]


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
