"""`llmc.plane_linear`: a linear layer on integers, its weight in bit planes."""

from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import ext

from llmc.dialects.block_parts import unpack_planes
from llmc.dialects.block_product import multiply_panels
from llmc.dialects.blocks import Q8_0
from llmc.dialects.checks import same, verified
from llmc.dialects.llmc import Operation
from llmc.dialects.panel_checks import check_rows
from llmc.dialects.plane_checks import check_planes
from llmc.dialects.plane_layout import take_apart
from llmc.dialects.quantize_rows import QuantizeRowsOp
from llmc.dialects.quantized_linear import QuantizedLinearOp


class PlaneLinearOp(Operation, name="plane_linear", traits=[ext.Pure]):
    """`llmc.packed_quantized_linear` of blocks that `llmc.pack_planes` made two parts of.

    They are `high [N/J, K/32, 26 J]` and `low [N/J, K/32, 8 J]`. Without `low` the product is a
    rough one, for which less is read: the low bits, 0 to 3, are taken for 2.

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
        inputs, outputs = check_rows(self.x, self.out)
        per_row = check_planes(self.high, self.low, outputs)
        same("x", "its last dimension", inputs, per_row * Q8_0.values)

    @staticmethod
    def reference(
        x: np.ndarray, high: np.ndarray, outputs: int, low: np.ndarray | None = None
    ) -> np.ndarray:
        """`x [..., K]`, int8 `[N/J, K/32, S]` -> `[..., N]`, `outputs` being N."""
        values, scales = QuantizeRowsOp.reference(x, Q8_0.values)
        return QuantizedLinearOp.reference(values, unpack_planes(high, low, outputs), scales)

    def lower(self) -> ir.Value:
        """Sums of products in a block, and then their sum over blocks."""
        parts = take_apart(self.high, self.low)
        return multiply_panels(self.x, parts, self.out.type.shape[-1])
