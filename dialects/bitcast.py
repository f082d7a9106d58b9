"""`llmc.bitcast`: the bytes of a tensor, read as numbers of another type."""

from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import ext

from llmc.dialects.checks import numbers, shaped, static, tensor_of, verified
from llmc.dialects.llmc import Operation
from llmc.dialects.mismatch import require


class BitcastOp(Operation, name="bitcast", traits=[ext.Pure]):
    """The bytes of each row of x, as many numbers of another type as they make.

    A kernel that reads a tensor and such a view of it is given one tensor. Has no lowering, since
    linalg knows numbers only, not their bytes: `to-iree` turns it into `flow.tensor.bitcast`.

        %h = "llmc.bitcast"(%w) : (tensor<4x18x320xi8>) -> tensor<4x18x160xf16>
    """

    x: ext.Operand[Any]
    out: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks that the result's rows are of as many bytes."""
        *leading, _ = tensor_of(self.x, "x", at_least=1)
        static("x", self.x)
        shaped("out", self.out, [*leading, None])
        static("out", self.out)
        bits = _bits_of_row("x", self.x)
        fault = f"must have {bits} bits in each row as 'x' has, but is {self.out.type}"
        require(_bits_of_row("out", self.out) == bits, fault, "out")

    @staticmethod
    def reference(x: np.ndarray, element: np.dtype) -> np.ndarray:
        """`x [..., N]` -> `[..., M]` of `element`."""
        return np.ascontiguousarray(x).view(element)


def _bits_of_row(name: str, value: ir.Value) -> int:
    numbers(name, value)
    return value.type.shape[-1] * value.type.element_type.width
