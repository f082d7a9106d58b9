"""`llmc.blocks_to_bytes`, `llmc.bytes_to_blocks`: blocks and cells as they lie in memory.

Between the two stands the meaning of a block in linalg, which knows nothing but bytes.
`store-blocks-as-bytes` makes tensors of blocks tensors of bytes, and these casts nothing.
"""

from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import ext
from torch_mlir.extras import types as T

from llmc.dialects.blocks import BlockFormat
from llmc.dialects.cache_cells import CellFormat
from llmc.dialects.checks import element_is, shaped, stored, tensor_of, verified
from llmc.dialects.llmc import Operation


class BlocksToBytesOp(Operation, name="blocks_to_bytes", traits=[ext.Pure]):
    """The bytes of each block or cell, in a last dimension of their own.

    Has no lowering, since linalg knows no blocks: `store-blocks-as-bytes` makes its operand bytes,
    which take its place.

        %b = "llmc.blocks_to_bytes"(%w) : (tensor<1536x18x!llmc.q4_1>) -> tensor<1536x18x20xi8>
    """

    x: ext.Operand[Any]
    out: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks that the result holds as many bytes as the blocks."""
        extents = tensor_of(self.x, "x")
        shaped("out", self.out, [*extents, stored("x", self.x).bytes])
        element_is("out", self.out, "i8")

    @staticmethod
    def reference(x: np.ndarray) -> np.ndarray:
        """`x [...]` of blocks -> int8 `[..., bytes]`."""
        return x.view(np.int8).reshape(*x.shape, -1)


class BytesToBlocksOp(Operation, name="bytes_to_blocks", traits=[ext.Pure]):
    """The blocks or cells that lie in the last dimension of x.

    Has no lowering, since linalg knows no blocks: `store-blocks-as-bytes` makes its result bytes,
    whose place its operand takes.

        %w = "llmc.bytes_to_blocks"(%b) : (tensor<1536x18x20xi8>) -> tensor<1536x18x!llmc.q4_1>
    """

    x: ext.Operand[Any]
    out: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks that x holds as many bytes as the blocks."""
        extents = tensor_of(self.out, "out")
        shaped("x", self.x, [*extents, stored("out", self.out).bytes])
        element_is("x", self.x, "i8")

    @staticmethod
    def reference(x: np.ndarray, format_: BlockFormat | CellFormat) -> np.ndarray:
        """`x [..., bytes]` of int8 -> blocks `[...]`."""
        return np.ascontiguousarray(x).view(format_.dtype)[..., 0]


def bytes_type(type_: ir.RankedTensorType) -> ir.RankedTensorType:
    """The tensor of bytes that a tensor of blocks or cells is stored as."""
    byte = T.i8()
    return ir.RankedTensorType.get([*type_.shape, type_.element_type.format.bytes], byte)


def to_bytes(value: ir.Value) -> ir.Value:
    """The bytes of a tensor of blocks or cells."""
    return BlocksToBytesOp(value, bytes_type(value.type)).out


def to_blocks(value: ir.Value, element: ir.Type) -> ir.Value:
    """The blocks or cells, of type `element`, in the last dimension of a tensor of bytes."""
    type_ = ir.RankedTensorType.get(value.type.shape[:-1], element)
    return BytesToBlocksOp(value, type_).out
