"""`llmc.packed_quantized_linear`: a linear layer on integers, its weight in panels of blocks."""

from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import ext

from llmc.dialects.block_panels import unpack_blocks
from llmc.dialects.block_product import multiply_panels
from llmc.dialects.blocks import FORMATS
from llmc.dialects.checks import element_is, same, tensor_of, verified
from llmc.dialects.llmc import Operation
from llmc.dialects.panel_checks import check_block_panels, check_rows
from llmc.dialects.panel_layout import take_apart
from llmc.dialects.quantize_rows import QuantizeRowsOp
from llmc.dialects.quantized_linear import QuantizedLinearOp


class PackedQuantizedLinearOp(Operation, name="packed_quantized_linear", traits=[ext.Pure]):
    """`llmc.quantized_linear` of the rows of `x`, with `weight [N/J, K/G, S]`, in integers.

    The weight is what `llmc.pack_blocks` makes of blocks of `format`, of G values each. Every G
    values of x are rounded to integers as `llmc.quantize_rows` does; their products with a block
    are summed in i32, each sum is scaled in f32, and sums over blocks are kept in f32. A scale of
    x for every block makes that one scaling; in groups of 128 rounding x costs a seventh or less of
    what 4-bit weights do.

        %y = "llmc.packed_quantized_linear"(%x, %w)
           {format = "q4_1", operandSegmentSizes = array<i32: 1, 1, 0>}
           : (tensor<1x?x576xf32>, tensor<96x18x320xi8>) -> tensor<1x?x1536xf32>
    """

    x: ext.Operand[Any]
    weight: ext.Operand[Any]
    format: ir.StringAttr
    out: ext.Result[Any]
    bias: ext.Operand[Any] | None = None

    @verified
    def verify_invariants(self) -> None:
        """Checks the format, K and N across operands, and element types."""
        inputs, outputs = check_rows(self.x, self.out)
        per_row = check_block_panels(self.weight, "weight", self.format, outputs)
        same("x", "its last dimension", inputs, per_row * FORMATS[self.format.value].values)
        if self.bias is not None:
            same("bias", "its length", tensor_of(self.bias, "bias", 1)[0], outputs)
            element_is("bias", self.bias, "f32")

    @staticmethod
    def reference(
        x: np.ndarray,
        weight: np.ndarray,
        format: str,
        outputs: int,
        bias: np.ndarray | None = None,
    ) -> np.ndarray:
        """`x [..., K]`, int8 `[N/J, K/G, S]` -> `[..., N]`, `outputs` being N."""
        blocks = unpack_blocks(weight, FORMATS[format], outputs)
        values, scales = QuantizeRowsOp.reference(x, FORMATS[format].values)
        return QuantizedLinearOp.reference(values, blocks, scales, bias)

    def lower(self) -> ir.Value:
        """Sums of products in a block, `[t, p, b, j]`, and then their sum over blocks."""
        parts = take_apart(self.weight, FORMATS[self.format.value])
        return multiply_panels(self.x, parts, self.out.type.shape[-1], self.bias)
