"""`llmc.block_field`: one field of every block, in a tensor of its own."""

from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, ext

from llmc.dialects.block_bytes import to_bytes
from llmc.dialects.block_layout import unpack_bytes
from llmc.dialects.blocks import BlockFormat
from llmc.dialects.checks import blocks, element_is, shaped, tensor_of, verified
from llmc.dialects.index_notation import letters, pointwise, sizes, slice_of
from llmc.dialects.llmc import Operation
from llmc.dialects.mismatch import require


class BlockFieldOp(Operation, name="block_field", traits=[ext.Pure]):
    """The scale, the minimum, or the packed integers of the blocks `x [...]`.

    Scale and minimum are f16 `[...]`, the integers bytes `[..., S]` as they lie in a block. What is
    apart so can be read in whole words, wherever a block begins.

        %s = "llmc.block_field"(%w) {field = "scale"}
           : (tensor<1536x18x!llmc.q4_1>) -> tensor<1536x18xf16>
    """

    x: ext.Operand[Any]
    field: ir.StringAttr
    out: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks that the blocks have the field, and its type."""
        extents, format_ = tensor_of(self.x, "x"), blocks("x", self.x)
        known = [*format_.floats, "packed"]
        fault = f"'field' must be one of {', '.join(known)}, but is '{self.field.value}'"
        require(self.field.value in known, fault)
        is_packed = self.field.value == "packed"
        size = format_.bytes_of("packed")[1]
        shaped("out", self.out, [*extents, size] if is_packed else extents)
        element_is("out", self.out, "i8" if is_packed else "f16")

    @staticmethod
    def reference(x: np.ndarray, field: str) -> np.ndarray:
        """Blocks `[...]` -> float16 `[...]`, or int8 `[..., S]` where `field` is packed."""
        part = np.ascontiguousarray(x[field])
        return part.view(np.int8) if field == "packed" else part

    def lower(self) -> ir.Value:
        """A slice of the bytes, or what two of them are as float16."""
        format_: BlockFormat = self.x.type.element_type.format
        stored = to_bytes(self.x)
        if self.field.value == "packed":
            *leading, _ = sizes(stored)
            start, size = format_.bytes_of("packed")
            extents = [*leading, size]
            return slice_of(stored, [*[0] * len(leading), start], extents, extents)
        wide = getattr(unpack_bytes(stored, format_), self.field.value)
        lead, half = letters(wide.type.rank), ir.F16Type.get()
        return pointwise(f"{lead}->{lead}", lambda x, _: arith.truncf(half, x), wide, element=half)
