"""`llmc.screened_argmax`: the largest number of a row, of which rough ones are known."""

from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import ext

from llmc.dialects.argmax import ArgmaxOp, find_best, rows_of_floats
from llmc.dialects.checks import (
    element_is,
    filled,
    multiple,
    same,
    shaped,
    static,
    tensor_of,
    verified,
)
from llmc.dialects.llmc import Operation


class ScreenedArgmaxOp(Operation, name="screened_argmax", traits=[ext.Pure]):
    """`llmc.argmax` of `exact [R, N]`, of which few numbers need to be known.

    A number is no more than `spread [N]` times a length above that in its place of `rough [R, N]`,
    so that most are too small, whatever they are. The length is that of the row of integers
    `values [R, K]`, as `llmc.quantize_rows` makes them with `scales [R, K/G]`, each times its one
    of `metric [K]`. Where a number is farther above, the result is any.

        %best = "llmc.screened_argmax"(%exact, %rough, %values, %scales, %metric, %spread)
           : (tensor<1x49152xf32>, tensor<1x49152xf32>, tensor<1x576xi8>, tensor<1x18xf32>,
              tensor<576xf32>, tensor<49152xf32>) -> tensor<1xi64>
    """

    exact: ext.Operand[Any]
    rough: ext.Operand[Any]
    values: ext.Operand[Any]
    scales: ext.Operand[Any]
    metric: ext.Operand[Any]
    spread: ext.Operand[Any]
    out: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks extents and element types."""
        rows = rows_of_floats("exact", self.exact)
        columns = self.exact.type.shape[1]
        shaped("rough", self.rough, [rows, columns])
        element_is("rough", self.rough, str(self.exact.type.element_type))
        given, length = tensor_of(self.values, "values", 2)
        same("values", "dimension 0", given, rows)
        static("values", self.values, 1)
        element_is("values", self.values, "i8")
        given, groups = tensor_of(self.scales, "scales", 2)
        same("scales", "dimension 0", given, rows)
        static("scales", self.scales, 1)
        filled("scales", self.scales, 1)
        multiple("values", "dimension 1", length, groups)
        element_is("scales", self.scales, "f32")
        same("metric", "its length", tensor_of(self.metric, "metric", 1)[0], length)
        element_is("metric", self.metric, "f32")
        same("spread", "its length", tensor_of(self.spread, "spread", 1)[0], columns)
        element_is("spread", self.spread, "f32")
        same("out", "dimension 0", tensor_of(self.out, "out", 1)[0], rows)
        element_is("out", self.out, "i64")

    @staticmethod
    def reference(
        exact: np.ndarray,
        rough: np.ndarray,
        values: np.ndarray,
        scales: np.ndarray,
        metric: np.ndarray,
        spread: np.ndarray,
    ) -> np.ndarray:
        """`[R, N]`, `[R, N]`, int8 `[R, K]`, `[R, K/G]`, `[K]`, `[N]` -> int64 `[R]`."""
        return ArgmaxOp.reference(exact)

    def lower(self) -> ir.Value:
        """That of `llmc.argmax`."""
        return find_best(self.exact)
