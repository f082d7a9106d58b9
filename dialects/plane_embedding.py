"""`llmc.plane_embedding`: rows, by number, of a table that lies in bit planes."""

from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import ext

from llmc.dialects.bit_planes import HIGH, LOW, unpack_planes
from llmc.dialects.block_layout import values
from llmc.dialects.blocks import Q8_0
from llmc.dialects.checks import (
    element_is,
    filled,
    integers,
    same,
    shaped,
    static,
    tensor_of,
    verified,
)
from llmc.dialects.llmc import Operation
from llmc.dialects.plane_checks import check_planes
from llmc.dialects.plane_layout import gather


class PlaneEmbeddingOp(Operation, name="plane_embedding", traits=[ext.Pure]):
    """The rows of a table that `ids [...]` name, in f32: `[..., K]`.

    The table is what `llmc.pack_planes` makes of its blocks, `high [N/J, K/32, 26 J]` and
    `low [N/J, K/32, 8 J]`. The ids are less than N.

        %y = "llmc.plane_embedding"(%ids, %high, %low)
           : (tensor<1x?xi64>, tensor<3072x18x416xi8>, tensor<3072x18x128xi8>)
           -> tensor<1x?x576xf32>
    """

    ids: ext.Operand[Any]
    high: ext.Operand[Any]
    low: ext.Operand[Any]
    out: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks that ids are integers, the parts' shapes, K and element types."""
        shape = tensor_of(self.ids, "ids", at_least=1)
        integers("ids", self.ids)
        filled("ids", self.ids)
        panels, per_row, columns = check_planes(self.high, "high", HIGH)
        shaped("low", self.low, [panels, per_row, columns * LOW.bytes])
        static("low", self.low)
        element_is("low", self.low, "i8")
        width = tensor_of(self.out, "out", len(shape) + 1)[-1]
        same("out", "its last dimension", width, per_row * Q8_0.values)
        static("out", self.out, len(shape))
        shaped("out", self.out, [*shape, width])
        element_is("out", self.out, "f32")

    @staticmethod
    def reference(ids: np.ndarray, high: np.ndarray, low: np.ndarray) -> np.ndarray:
        """`ids [...]`, int8 `[N/J, K/32, S]` -> `[..., K]`."""
        rows = len(high) * high.shape[2] // HIGH.bytes
        return Q8_0.decode(unpack_planes(high, low, rows)[ids])

    def lower(self) -> ir.Value:
        """A gather of the bytes of the rows' blocks, which are then decoded."""
        return values(gather(self.ids, self.high, self.low))
