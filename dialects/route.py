"""`llmc.route`: which experts a row goes through, and what each of them counts for."""

from math import inf
from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, ext, math

from llmc.dialects.argmax import rows_of_floats
from llmc.dialects.checks import (
    at_most,
    element_is,
    filled,
    flag,
    shaped,
    static,
    tensor_of,
    verified,
)
from llmc.dialects.index_notation import pointwise, reduce
from llmc.dialects.llmc import Operation
from llmc.dialects.top_k import TopKOp, select_largest


class RouteOp(Operation, name="route", traits=[ext.Pure]):
    """The C largest of the softmax of each row of `logits [R, E]`, and their places.

    They come in descending order, equal ones in that of their places. `normalised` 1: they are
    scaled to a sum of 1. What is found in a row that holds NaN is undefined. Shazeer et al.,
    "Outrageously Large Neural Networks", 2017.

        %weights, %experts = "llmc.route"(%logits) {normalised = 1 : i64}
          : (tensor<?x32xf32>) -> (tensor<?x8xf32>, tensor<?x8xi64>)
    """

    logits: ext.Operand[Any]
    normalised: ir.IntegerAttr
    weights: ext.Result[Any]
    experts: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks extents and element types."""
        chosen_of(self.logits, self.weights, self.experts)
        flag("normalised", self.normalised)

    @staticmethod
    def reference(
        logits: np.ndarray, count: int, normalised: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """`logits [R, E]` -> float32 and int64 `[R, count]`."""
        powers = np.exp(logits - logits.max(1, keepdims=True))
        largest, experts = TopKOp.reference(powers, count)
        return largest / (largest if normalised else powers).sum(1, keepdims=True), experts

    def lower(self) -> list[ir.Value]:
        """Powers of e, the largest of them, and the sum of these or of all."""
        _, count = self.weights.type.shape
        powers = powers_of(self.logits)
        largest, experts = select_largest(powers, count)
        total = reduce("rc->r", arith.addf, 0.0, largest if self.normalised.value else powers)
        weights = pointwise("rc,r->rc", lambda x, sum_, _: arith.divf(x, sum_), largest, total)
        return [weights, experts]


def powers_of(x: ir.Value) -> ir.Value:
    """e to each number of `x [R, E]` less the largest of its row."""
    most = reduce("re->r", arith.maximumf, -inf, x)
    return pointwise("re,r->re", lambda x, most, _: math.exp(arith.subf(x, most)), x, most)


def chosen_of(logits: ir.Value, weights: ir.Value, experts: ir.Value) -> int:
    """Checks that `weights` and `experts` [R, C] can be chosen of `logits` [R, E]; returns E."""
    rows = rows_of_floats("logits", logits)
    element_is("logits", logits, "f32")
    chosen = tensor_of(weights, "weights", 2)[1]
    for name, value, element in (("weights", weights, "f32"), ("experts", experts, "i64")):
        shaped(name, value, [rows, chosen])
        static(name, value, 1)
        filled(name, value, 1)
        element_is(name, value, element)
    extent: int = logits.type.shape[1]
    at_most("weights", "dimension 1", chosen, extent)
    return extent
