"""`llmc.split_float`: the high or the low bits of floats."""

from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import ext

from llmc.dialects.checks import element_is, shaped, tensor_of, verified
from llmc.dialects.float_bits import parts_of_floats, split
from llmc.dialects.float_parts import PARTS
from llmc.dialects.float_parts import split as split_array
from llmc.dialects.index_notation import letters, pointwise
from llmc.dialects.llmc import Operation
from llmc.dialects.mismatch import require


class SplitFloatOp(Operation, name="split_float", traits=[ext.Pure]):
    """The `part` of each number in `x [...]`, `high` or `low`: f16 gives i8, and f32 i16.

    Of f16 the part `high` has the sign, the exponent without its highest bit, and 3 bits of the
    mantissa. The highest bit of the exponent, which is 0 in numbers below 2, is the first of `low`.

        %high = "llmc.split_float"(%w) {part = "high"}
           : (tensor<49152x576xf16>) -> tensor<49152x576xi8>
    """

    x: ext.Operand[Any]
    part: ir.StringAttr
    out: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks element types, the part, and that the shape stays."""
        shape, parts = tensor_of(self.x, "x", at_least=1), parts_of_floats("x", self.x)
        name = self.part.value
        require(name in PARTS, f"'part' must be one of {', '.join(PARTS)}, but is '{name}'")
        shaped("out", self.out, shape)
        element_is("out", self.out, f"i{parts.width}")

    @staticmethod
    def reference(x: np.ndarray, part: str) -> np.ndarray:
        """float16 `[...]` -> int8 `[...]`, float32 -> int16."""
        return split_array(x, part)

    def lower(self) -> ir.Value:
        """Shifts and masks of each number's bits."""
        lead, part = letters(self.x.type.rank), self.part.value
        element = self.out.type.element_type
        return pointwise(
            f"{lead}->{lead}", lambda number, _: split(number, part), self.x, element=element
        )
