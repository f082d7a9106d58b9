"""`llmc.pack_planes`: the high or the low bits of a matrix of blocks, laid out for kernels."""

from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import ext

from llmc.dialects.block_parts import PLANES, pack_planes
from llmc.dialects.checks import counts, element_is, shaped, static, tensor_of, verified
from llmc.dialects.llmc import Operation
from llmc.dialects.mismatch import require
from llmc.dialects.plane_checks import q8_0
from llmc.dialects.plane_layout import interleave


class PackPlanesOp(Operation, name="pack_planes", traits=[ext.Pure]):
    """The `part` of the blocks `x [N, K/32]` in panels of J = `columns` rows: `[N/J, K/32, S]`.

    S is J times 26 bytes for the part `high`, the scale and 6 bits of each integer, and J times 8
    for `low`, the other 2. The last panel is padded with zeros where J does not divide N.

        %high = "llmc.pack_planes"(%w) {columns = 16 : i64, part = "high"}
           : (tensor<49152x18x!llmc.q8_0>) -> tensor<3072x18x416xi8>
    """

    x: ext.Operand[Any]
    columns: ir.IntegerAttr
    part: ir.StringAttr
    out: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks that x is a static matrix of q8_0 blocks and that the result has room for them."""
        rows, count = tensor_of(self.x, "x", 2)
        static("x", self.x)
        q8_0("x", self.x)
        counts("columns", self.columns)
        name, columns = self.part.value, self.columns.value
        require(name in PLANES, f"'part' must be one of {', '.join(PLANES)}, but is '{name}'")
        shaped("out", self.out, [-(-rows // columns), count, columns * PLANES[name].bytes])
        static("out", self.out)
        element_is("out", self.out, "i8")

    @staticmethod
    def reference(x: np.ndarray, columns: int, part: str) -> np.ndarray:
        """Blocks `[N, K/32]` -> int8 `[N/J, K/32, S]`."""
        return pack_planes(x, PLANES[part], columns)

    def lower(self) -> ir.Value:
        """The bytes of each plane, and then a linalg.pack of them."""
        return interleave(self.x, PLANES[self.part.value], self.columns.value)
