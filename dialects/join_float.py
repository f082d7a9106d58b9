"""`llmc.join_float`: floats from their high and low bits."""

from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import ext

from llmc.dialects.checks import element_is, shaped, tensor_of, typed, verified
from llmc.dialects.float_bits import join, parts_of_integers
from llmc.dialects.float_parts import join as join_arrays
from llmc.dialects.index_notation import letters, pointwise
from llmc.dialects.llmc import Operation


class JoinFloatOp(Operation, name="join_float", traits=[ext.Pure]):
    """The numbers that `llmc.split_float` took apart into `high [...]` and `low [...]`, in f32.

    Parts in i8 are those of f16, and in i16 those of f32. Without `low` the numbers are rough: its
    bits are taken for 0, but those of f16, after the first, for their middle.

        %w = "llmc.join_float"(%high, %low) {operandSegmentSizes = array<i32: 1, 1>}
           : (tensor<3072x576x16xi8>, tensor<3072x576x16xi8>) -> tensor<3072x576x16xf32>
    """

    high: ext.Operand[Any]
    out: ext.Result[Any]
    low: ext.Operand[Any] | None = None

    @verified
    def verify_invariants(self) -> None:
        """Checks element types, and that all shapes are one."""
        shape = tensor_of(self.high, "high", at_least=1)
        parts_of_integers("high", self.high)
        if self.low is not None:
            typed("low", self.low, self.high.type)
        shaped("out", self.out, shape)
        element_is("out", self.out, "f32")

    @staticmethod
    def reference(high: np.ndarray, low: np.ndarray | None = None) -> np.ndarray:
        """int8 or int16 `[...]` -> float32 `[...]`."""
        return join_arrays(high, low)

    def lower(self) -> ir.Value:
        """Shifts and masks, number by number."""
        given = [self.high] if self.low is None else [self.high, self.low]
        lead = letters(self.high.type.rank)
        notation = f"{','.join([lead] * len(given))}->{lead}"
        return pointwise(
            notation, lambda *parts: join(*parts[:-1]), *given, element=self.out.type.element_type
        )
