"""`llmc.screened_argmax`: the largest number of a row, found with the help of rough ones."""

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
    """`llmc.argmax` of `exact [R, N]`, for which few of these numbers need to be computed.

    The other operands bound them: number n of a row is at most `rough [R, N]` plus `spread [N]`
    times a length, so that most cannot be the largest. The length is that of the row `values
    [R, K]`, f32, or of the one that i8 `values` and `scales [R, K/G]` stand for, as
    `llmc.quantize_rows` makes them, with each number times its own of `metric [K]`. Where a bound
    does not hold, the result is undefined.

        %best = "llmc.screened_argmax"(%exact, %rough, %values, %metric, %spread)
           {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0>}
           : (tensor<1x49152xf32>, tensor<1x49152xf32>, tensor<1x576xf32>, tensor<576xf32>,
              tensor<49152xf32>) -> tensor<1xi64>
    """

    exact: ext.Operand[Any]
    rough: ext.Operand[Any]
    values: ext.Operand[Any]
    metric: ext.Operand[Any]
    spread: ext.Operand[Any]
    out: ext.Result[Any]
    scales: ext.Operand[Any] | None = None

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
        filled("values", self.values, 1)
        element_is("values", self.values, "f32" if self.scales is None else "i8")
        if self.scales is not None:
            self._check_scales(rows, length)
        same("metric", "its length", tensor_of(self.metric, "metric", 1)[0], length)
        element_is("metric", self.metric, "f32")
        same("spread", "its length", tensor_of(self.spread, "spread", 1)[0], columns)
        element_is("spread", self.spread, "f32")
        same("out", "dimension 0", tensor_of(self.out, "out", 1)[0], rows)
        element_is("out", self.out, "i64")

    def _check_scales(self, rows: int | None, length: int) -> None:
        given, groups = tensor_of(self.scales, "scales", 2)
        same("scales", "dimension 0", given, rows)
        static("scales", self.scales, 1)
        filled("scales", self.scales, 1)
        multiple("values", "dimension 1", length, groups)
        element_is("scales", self.scales, "f32")

    @staticmethod
    def reference(
        exact: np.ndarray,
        rough: np.ndarray,
        values: np.ndarray,
        metric: np.ndarray,
        spread: np.ndarray,
        scales: np.ndarray | None = None,
    ) -> np.ndarray:
        """`[R, N]`, `[R, N]`, `[R, K]`, `[K]`, `[N]`, perhaps `[R, K/G]` -> int64 `[R]`."""
        return ArgmaxOp.reference(exact)

    def lower(self) -> ir.Value:
        """That of `llmc.argmax`."""
        return find_best(self.exact)
