"""`llmc.plane_linear`: a linear layer on integers, its weight in bit planes."""

from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import ext

from llmc.dialects.bit_planes import HIGH, LOW, unpack_planes
from llmc.dialects.block_product import first_outputs, multiply_blocks
from llmc.dialects.blocks import Q8_0
from llmc.dialects.checks import element_is, filled, same, shaped, static, tensor_of, verified
from llmc.dialects.index_notation import collapse, expand, sizes
from llmc.dialects.llmc import Operation
from llmc.dialects.plane_checks import check_planes
from llmc.dialects.plane_layout import take_apart
from llmc.dialects.quantize_rows import QuantizeRowsOp
from llmc.dialects.quantized_linear import QuantizedLinearOp


class PlaneLinearOp(Operation, name="plane_linear", traits=[ext.Pure]):
    """`llmc.packed_quantized_linear` with a weight that `llmc.pack_planes` made two parts of.

    Without `low [N/J, K/32, 8 J]` its bits are taken for the middle of what they may be: the
    product is rough, and `high [N/J, K/32, 26 J]` is all that is read for it.

        %y = "llmc.plane_linear"(%x, %high, %low)
           {operandSegmentSizes = array<i32: 1, 1, 1>}
           : (tensor<1x1x576xf32>, tensor<3072x18x416xi8>, tensor<3072x18x128xi8>)
           -> tensor<1x1x49152xf32>
    """

    x: ext.Operand[Any]
    high: ext.Operand[Any]
    out: ext.Result[Any]
    low: ext.Operand[Any] | None = None

    @verified
    def verify_invariants(self) -> None:
        """Checks K and N across operands, and element types."""
        *leading, inputs = tensor_of(self.x, "x", at_least=2)
        element_is("x", self.x, "f32")
        filled("x", self.x)
        outputs = tensor_of(self.out, "out", len(leading) + 1)[-1]
        static("out", self.out, len(leading))
        panels, per_row, columns = check_planes(self.high, "high", HIGH, outputs)
        same("x", "its last dimension", inputs, per_row * Q8_0.values)
        if self.low is not None:
            shaped("low", self.low, [panels, per_row, columns * LOW.bytes])
            static("low", self.low)
            element_is("low", self.low, "i8")
        shaped("out", self.out, [*leading, outputs])
        element_is("out", self.out, "f32")

    @staticmethod
    def reference(
        x: np.ndarray, high: np.ndarray, outputs: int, low: np.ndarray | None = None
    ) -> np.ndarray:
        """`x [..., K]`, int8 `[N/J, K/32, S]` -> `[..., N]`, `outputs` being N."""
        values, scales = QuantizeRowsOp.reference(x, Q8_0.values)
        return QuantizedLinearOp.reference(values, unpack_planes(high, low, outputs), scales)

    def lower(self) -> ir.Value:
        """Sums of products in a block, and then their sum over blocks."""
        leading, outputs = sizes(self.x)[:-1], self.out.type.shape[-1]
        rows = collapse(self.x, [len(leading), 1]) if len(leading) > 1 else self.x
        y = first_outputs(multiply_blocks(rows, take_apart(self.high, self.low)), outputs)
        return y if len(leading) == 1 else expand(y, [leading, [outputs]])
