"""`llmc.plane_embedding`: rows, by number, of a table that lies in bit planes."""

from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import ext

from llmc.dialects.block_layout import values
from llmc.dialects.block_parts import HIGH, unpack_planes
from llmc.dialects.blocks import Q8_0
from llmc.dialects.checks import same, verified
from llmc.dialects.llmc import Operation
from llmc.dialects.panel_checks import check_lookup
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
        width = check_lookup(self.ids, self.out)
        per_row = check_planes(self.high, self.low)
        same("out", "its last dimension", width, per_row * Q8_0.values)

    @staticmethod
    def reference(ids: np.ndarray, high: np.ndarray, low: np.ndarray) -> np.ndarray:
        """`ids [...]`, int8 `[N/J, K/32, S]` -> `[..., K]`."""
        rows = len(high) * high.shape[2] // HIGH.bytes
        return Q8_0.decode(unpack_planes(high, low, rows)[ids])

    def lower(self) -> ir.Value:
        """A gather of the bytes of the rows' blocks, which are then decoded."""
        return values(gather(self.ids, self.high, self.low))
