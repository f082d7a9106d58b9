"""`llmc.block_field`: one field of every block, in a tensor of its own."""

from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, ext
from torch_mlir.extras import types as T

from llmc.dialects.block_bytes import to_bytes
from llmc.dialects.block_layout import pack_in_order, unpack_bytes
from llmc.dialects.blocks import BlockFormat, format_of
from llmc.dialects.checks import blocks, element_is, shaped, tensor_of, verified
from llmc.dialects.index_notation import letters, pointwise
from llmc.dialects.llmc import Operation
from llmc.dialects.mismatch import require


class BlockFieldOp(Operation, name="block_field", traits=[ext.Pure]):
    """The scale, the minimum, or the stored integers of the blocks `x [...]`.

    Scale and minimum are f16 `[...]`, the integers bytes `[..., S]` in the order of the values: of
    4 bits, byte i holds value 2i in its low half and the next in its high half; of more, each has a
    byte. What is apart so can be read in whole words, wherever a block begins.

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
        known = [*format_.floats, _INTEGERS]
        fault = f"'field' must be one of {', '.join(known)}, but is '{self.field.value}'"
        require(self.field.value in known, fault)
        are_integers = self.field.value == _INTEGERS
        shape = [*extents, format_.bytes_in_order] if are_integers else extents
        shaped("out", self.out, shape)
        element_is("out", self.out, "i8" if are_integers else "f16")

    @staticmethod
    def reference(x: np.ndarray, field: str) -> np.ndarray:
        """Blocks `[...]` -> float16 `[...]`, or int8 `[..., S]` where `field` is integers."""
        format_ = format_of(x)
        if format_ is None or field not in (*format_.floats, _INTEGERS):
            raise ValueError(f"{x.dtype} holds no blocks with the field '{field}'")
        if field == _INTEGERS:
            return format_.in_order(x)
        return np.ascontiguousarray(x[field])

    def lower(self) -> ir.Value:
        """The integers put together anew, or what two bytes are as float16."""
        format_: BlockFormat = self.x.type.element_type.format
        parts = unpack_bytes(to_bytes(self.x), format_)
        if self.field.value == _INTEGERS:
            return pack_in_order(parts.integers, format_)
        wide = getattr(parts, self.field.value)
        lead, half = letters(wide.type.rank), T.f16()
        return pointwise(f"{lead}->{lead}", lambda x, _: arith.truncf(half, x), wide, element=half)


_INTEGERS = "integers"
