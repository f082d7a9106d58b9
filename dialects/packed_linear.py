"""`llmc.packed_linear`: a linear layer whose weight is laid out for the kernel that reads it."""

from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, ext, linalg, tensor

from llmc.dialects.checks import (
    counts,
    floats,
    require,
    same,
    same_element,
    shaped,
    static,
    tensor_of,
    verified,
)
from llmc.dialects.index_notation import (
    as_value,
    collapse,
    constant,
    expand,
    filled,
    size,
    slice_of,
)
from llmc.dialects.linear import LinearOp
from llmc.dialects.linear_rows import on_rows
from llmc.dialects.llmc import Operation


class PackedLinearOp(Operation, name="packed_linear", traits=[ext.Pure]):
    """`llmc.linear` with `weight [N/J, K, J]`: output n is column n mod J of panel n / J.

    A panel is read from end to end for J outputs, by one row of x as by many. The last panel is
    padded with zeros where J does not divide N. `tile` rows of x are computed together. Sums are
    kept in the type of the result, to which x and the weight are widened.

        %y = "llmc.packed_linear"(%x, %w)
           {operandSegmentSizes = array<i32: 1, 1, 0>, tile = 16 : i64}
           : (tensor<1x?x576xf32>, tensor<96x576x16xf32>) -> tensor<1x?x1536xf32>
    """

    x: ext.Operand[Any]
    weight: ext.Operand[Any]
    tile: ir.IntegerAttr
    out: ext.Result[Any]
    bias: ext.Operand[Any] | None = None

    @verified
    def verify_invariants(self) -> None:
        """Checks K and N across operands."""
        shape, stored = tensor_of(self.x, "x", at_least=2), tensor_of(self.weight, "weight", 3)
        outputs = tensor_of(self.out, "out", len(shape))[-1]
        floats("out", self.out)
        floats("x", self.x, widened_to=self.out)
        floats("weight", self.weight, widened_to=self.out)
        static("out", self.out, len(shape) - 1)
        check_float_panels(self.weight, outputs)
        same("x", "its last dimension", shape[-1], stored[1])
        if self.bias is not None:
            same("bias", "its length", tensor_of(self.bias, "bias", 1)[0], outputs)
            same_element("bias", self.bias, self.out)
        shaped("out", self.out, [*shape[:-1], outputs])
        counts("tile", self.tile)

    @staticmethod
    def reference(
        x: np.ndarray, weight: np.ndarray, outputs: int, bias: np.ndarray | None = None
    ) -> np.ndarray:
        """`x [..., K]`, `weight [N/J, K, J]` -> `[..., N]`, `outputs` being N."""
        return LinearOp.reference(x, unpack_panels(weight, outputs), bias)

    def lower(self) -> ir.Value:
        """A linalg.mmt4d: a single row as it is, several packed in tiles of rows."""
        return on_rows(self.x, self._multiply, self.bias)

    def _multiply(self, rows: ir.Value) -> ir.Value:
        rows = _with_width(rows, self.weight.type.shape[1])
        if size(rows, 0) == 1:
            return self._one_row(rows)
        return self._many_rows(rows, self.out.type.shape[-1])

    def _panels(self) -> ir.Value:
        panels, inputs, columns = self.weight.type.shape
        return expand(self.weight, [[panels], [inputs], [columns, 1]])

    def _one_row(self, row: ir.Value) -> ir.Value:
        panels, inputs, columns = self.weight.type.shape
        outputs = self.out.type.shape[-1]
        zeros = filled([1, panels, 1, columns], 0.0, self.out.type.element_type)
        left = expand(row, [[1], [inputs, 1, 1]])
        y = collapse(linalg.mmt4d(left, self._panels(), outs=[zeros]), [1, 3])
        if panels * columns == outputs:
            return y
        return slice_of(y, [0, 0], [1, outputs], [1, outputs])

    def _many_rows(self, rows: ir.Value, outputs: int) -> ir.Value:
        panels, inputs, columns = self.weight.type.shape
        tile, element, count = self.tile.value, rows.type.element_type, size(rows, 0)
        tiles = arith.ceildivui(as_value(count), as_value(tile))
        left = linalg.pack(
            rows,
            tensor.empty([tiles, inputs, tile, 1], element),
            [0, 1],
            [tile, 1],
            padding_value=constant(0.0, element),
            outer_dims_perm=[0, 1],
        )
        sums = self.out.type.element_type
        zeros = filled([tiles, panels, tile, columns], 0.0, sums)
        product = linalg.mmt4d(left, self._panels(), outs=[zeros])
        return linalg.unpack(
            product,
            tensor.empty([count, outputs], sums),
            [0, 1],
            [tile, columns],
            outer_dims_perm=[0, 1],
        )


def _with_width(rows: ir.Value, width: int) -> ir.Value:
    """`rows [T, K]` with a static K of `width`, where their type leaves it open."""
    if not rows.type.is_dynamic_dim(1):
        return rows
    type_ = ir.RankedTensorType.get([rows.type.shape[0], width], rows.type.element_type)
    return tensor.cast(type_, rows)


def check_float_panels(weight: ir.Value, outputs: int) -> None:
    """Checks that `weight [..., N/J, K, J]` is static and has room for N = `outputs`."""
    static("weight", weight)
    *_, panels, _, columns = weight.type.shape
    require(columns > 0, f"must have columns, but is {weight.type}", "weight")
    same("weight", "its panels", panels, -(-outputs // columns))


def unpack_panels(weight: np.ndarray, outputs: int) -> np.ndarray:
    """The matrix `[..., N, K]` that is laid out as `weight [..., N/J, K, J]`, N being `outputs`."""
    *leading, _, inputs, _ = weight.shape
    return weight.swapaxes(-1, -2).reshape(*leading, -1, inputs)[..., :outputs, :]
