"""`llmc.packed_embedding`: rows, by number, of a table that lies in panels of blocks."""

from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import ext

from llmc.dialects.block_layout import values
from llmc.dialects.block_panels import unpack_blocks
from llmc.dialects.blocks import FORMATS
from llmc.dialects.checks import same, verified
from llmc.dialects.llmc import Operation
from llmc.dialects.panel_checks import check_block_panels, check_lookup
from llmc.dialects.panel_layout import gather


class PackedEmbeddingOp(Operation, name="packed_embedding", traits=[ext.Pure]):
    """The rows of `table [N/J, K/G, S]` that `ids [...]` name, in f32: `[..., K]`.

    The table is what `llmc.pack_blocks` makes of blocks of `format`: that of an output head that
    shares its weight with the embedding. The ids are less than N.

        %y = "llmc.packed_embedding"(%ids, %table) {format = "q8_0"}
           : (tensor<1x?xi64>, tensor<3072x18x544xi8>) -> tensor<1x?x576xf32>
    """

    ids: ext.Operand[Any]
    table: ext.Operand[Any]
    format: ir.StringAttr
    out: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks that ids are integers, the format, K and element types."""
        width = check_lookup(self.ids, self.out)
        per_row = check_block_panels(self.table, "table", self.format)
        same("out", "its last dimension", width, per_row * FORMATS[self.format.value].values)

    @staticmethod
    def reference(ids: np.ndarray, table: np.ndarray, format: str) -> np.ndarray:
        """`ids [...]`, int8 `[N/J, K/G, S]` -> `[..., K]`."""
        kind = FORMATS[format]
        rows = len(table) * table.shape[2] // kind.bytes
        return kind.decode(unpack_blocks(table, kind, rows)[ids])

    def lower(self) -> ir.Value:
        """A gather of the bytes of the rows' blocks, which are then decoded."""
        return values(gather(self.ids, self.table, FORMATS[self.format.value]))
