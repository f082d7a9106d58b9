"""`llmc.embedding`: rows of a table, by number."""

from fractions import Fraction
from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, ext, tensor
from torch_mlir.extras import types as T

from llmc.dialects.block_bytes import to_blocks, to_bytes
from llmc.dialects.block_layout import dequantize
from llmc.dialects.block_types import block_format
from llmc.dialects.blocks import decode
from llmc.dialects.checks import (
    element_is,
    filled,
    floats,
    integers,
    same,
    shaped,
    static,
    tensor_of,
    verified,
)
from llmc.dialects.index_notation import letters, loop_index, pointwise, widened
from llmc.dialects.llmc import Operation
from llmc.dialects.sharding_rule import Dim, ShardingRule, by_letters


class EmbeddingOp(Operation, name="embedding", traits=[ext.Pure]):
    """The rows of `table` that `ids [...]` name: `[..., K]`.

    The table is floats `[V, K]`, of the result's type or a narrower one, or blocks `[V, K/G]`.
    The ids are less than V.

        %y = "llmc.embedding"(%ids, %table)
           : (tensor<1x?xi64>, tensor<49152x18x!llmc.q8_0>) -> tensor<1x?x576xf32>
    """

    ids: ext.Operand[Any]
    table: ext.Operand[Any]
    out: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks that ids are integers, and K and element types of table and result."""
        shape = tensor_of(self.ids, "ids", at_least=1)
        integers("ids", self.ids)
        filled("ids", self.ids)
        _, stored = tensor_of(self.table, "table", 2)
        static("table", self.table, 1)
        filled("table", self.table)
        width = tensor_of(self.out, "out", len(shape) + 1)[-1]
        if format_ := block_format(self.table.type):
            same("out", "its last dimension", width, stored * format_.values)
            element_is("out", self.out, "f32")
        else:
            same("out", "its last dimension", width, stored)
            floats("out", self.out)
            floats("table", self.table, widened_to=self.out)
        static("out", self.out, len(shape))
        shaped("out", self.out, [*shape, width])

    def sharding(self) -> ShardingRule:
        """By channels, or by rows of the table: a rank without an id's row adds 0 to the sum."""
        format_ = block_format(self.table.type)
        stored = Dim("k", Fraction(1, format_.values if format_ else 1))
        return by_letters(self, sums="v", dims={"c": stored}, ids="*", table="vc", out="*k")

    @staticmethod
    def reference(ids: np.ndarray, table: np.ndarray) -> np.ndarray:
        """`ids [...]`, `table [V, K]` or blocks `[V, K/G]` -> `[..., K]`."""
        return decode(table[ids])

    def lower(self) -> ir.Value:
        """A gather; of blocks it takes the bytes of those that are named, and decodes these."""
        if block_format(self.table.type):
            rows = look_up(self.ids, to_bytes(self.table))
            return dequantize(to_blocks(rows, self.table.type.element_type))
        return look_up(self.ids, self.table, self.out.type.element_type)


def look_up(ids: ir.Value, table: ir.Value, element: ir.Type | None = None) -> ir.Value:
    """`table[ids]`, widened to `element`: `ids [...]`, `table [V, ...]`."""
    every = letters(ids.type.rank + table.type.rank - 1)
    lead, rest = every[: ids.type.rank], every[ids.type.rank :]
    element = element or table.type.element_type

    def element_of(which: ir.Value, _: ir.Value) -> ir.Value:
        row = arith.index_cast(T.index(), which)
        within = [loop_index(len(lead) + number) for number in range(len(rest))]
        return widened(tensor.extract(table, [row, *within]), element)

    extents = dict(zip(rest, table.type.shape[1:], strict=True))
    return pointwise(f"{lead}->{lead}{rest}", element_of, ids, element=element, **extents)
