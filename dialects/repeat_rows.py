"""`llmc.repeat_rows`: a weight with more rows, which are its first ones again."""

from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import ext, tensor

from llmc.dialects.block_types import block_format
from llmc.dialects.checks import filled, floats, same, static, tensor_of, verified
from llmc.dialects.index_notation import slice_of
from llmc.dialects.llmc import Operation
from llmc.dialects.mismatch import require


class RepeatRowsOp(Operation, name="repeat_rows", traits=[ext.Pure]):
    """The rows of `x [N, K]`, floats or blocks, and as many of its first ones again as it needs.

    `fill-panels` fills the last panels of an output head so. A search for the largest product finds
    none of them: that of the same row at its first place is as large, and comes before.

        %filled = "llmc.repeat_rows"(%w) : (tensor<49155x576xf32>) -> tensor<49280x576xf32>
    """

    x: ext.Operand[Any]
    out: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks that both are matrices of the same columns, and how many rows there are."""
        rows, columns = tensor_of(self.x, "x", 2)
        if block_format(self.x.type) is None:
            floats("x", self.x)
        static("x", self.x)
        filled("x", self.x)
        more, given = tensor_of(self.out, "out", 2)
        static("out", self.out)
        same("out", "dimension 1", given, columns)
        is_alike = self.x.type.element_type == self.out.type.element_type
        require(is_alike, f"must hold what 'x' holds, but is {self.out.type}", "out")
        fault = f"must have from {rows} to {2 * rows} rows, but is {self.out.type}"
        require(rows <= more <= 2 * rows, fault, "out")

    @staticmethod
    def reference(x: np.ndarray, rows: int) -> np.ndarray:
        """`[N, K]` -> `[rows, K]`. ValueError where x is no matrix, or that is no N to 2N."""
        if x.ndim != 2:
            raise ValueError(f"only rows of a matrix can be repeated, not of {x.ndim} dimensions")
        if not len(x) <= rows <= 2 * len(x):
            raise ValueError(f"{len(x)} rows cannot be repeated to give {rows}")
        return np.concatenate([x, x[: rows - len(x)]])

    def lower(self) -> ir.Value:
        """A slice and a concatenation."""
        rows, columns = self.x.type.shape
        extents = [self.out.type.shape[0] - rows, columns]
        again = slice_of(self.x, [0, 0], extents, extents)
        return tensor.concat(self.out.type, 0, [self.x, again])
