"""`llmc.pack_blocks`: matrices of blocks laid out for the kernel that reads them."""

from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import ext

from llmc.dialects.block_panels import pack_blocks
from llmc.dialects.checks import blocks, counts, element_is, shaped, static, tensor_of, verified
from llmc.dialects.llmc import Operation
from llmc.dialects.panel_layout import interleave


class PackBlocksOp(Operation, name="pack_blocks", traits=[ext.Pure]):
    """The blocks `x [..., N, K/G]` in panels of J = `columns` rows: bytes `[..., N/J, K/G, S]`.

    S is J times the bytes of a block. The cell of a panel for a block holds J scales, J minima if
    the format has them, and then the integers, 4 bytes of each row in turn. The last panel is
    padded with zeros where J does not divide N.

        %p = "llmc.pack_blocks"(%w) {columns = 16 : i64}
           : (tensor<1536x18x!llmc.q4_1>) -> tensor<96x18x320xi8>
    """

    x: ext.Operand[Any]
    columns: ir.IntegerAttr
    out: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks that x is static matrices of blocks and that the result has room for them."""
        *leading, rows, count = tensor_of(self.x, "x", at_least=2)
        static("x", self.x)
        format_, columns = blocks("x", self.x), self.columns.value
        counts("columns", self.columns)
        shaped("out", self.out, [*leading, -(-rows // columns), count, columns * format_.bytes])
        static("out", self.out)
        element_is("out", self.out, "i8")

    @staticmethod
    def reference(x: np.ndarray, columns: int) -> np.ndarray:
        """Blocks `[..., N, K/G]` -> int8 `[..., N/J, K/G, S]`."""
        return pack_blocks(x, columns)

    def lower(self) -> ir.Value:
        """A linalg.pack for the scales and minima, one for the integers, and both joined."""
        return interleave(self.x, self.columns.value)
