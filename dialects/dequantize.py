"""`llmc.dequantize`: the numbers that blocks stand for."""

from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import ext

from llmc.dialects.block_layout import dequantize
from llmc.dialects.blocks import decode
from llmc.dialects.checks import blocks, element_is, in_blocks, same, shaped, tensor_of, verified
from llmc.dialects.llmc import Operation


class DequantizeOp(Operation, name="dequantize", traits=[ext.Pure]):
    """The values `[..., K]` of the blocks `x [..., K/G]`.

    These are `scale * integer + minimum`, as the type of the blocks says.

        %y = "llmc.dequantize"(%x) : (tensor<1536x18x!llmc.q4_1>) -> tensor<1536x576xf32>
    """

    x: ext.Operand[Any]
    out: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks that x holds blocks and the result the values of each, in f32."""
        *leading, count = tensor_of(self.x, "x", at_least=1)
        values = blocks("x", self.x).values
        shape = tensor_of(self.out, "out", len(leading) + 1)
        shaped("out", self.out, [*leading, shape[-1]])
        same("x", "its last dimension", count, in_blocks("out", shape[-1], values))
        element_is("out", self.out, "f32")

    @staticmethod
    def reference(x: np.ndarray) -> np.ndarray:
        """`x [..., K/G]` of blocks -> float32 `[..., K]`."""
        return decode(x)

    def lower(self) -> ir.Value:
        """The bits of each value put together, and one elementwise operation."""
        return dequantize(self.x)
