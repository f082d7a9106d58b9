"""`llmc.add_rms_norm`: a residual addition and the normalisation of its sum."""

from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, ext

from llmc.dialects.checks import floats, require, same, same_element, static, tensor_of, verified
from llmc.dialects.index_notation import letters, pointwise
from llmc.dialects.llmc import Operation
from llmc.dialects.rms_norm import RMSNormOp


class AddRMSNormOp(Operation, name="add_rms_norm", traits=[ext.Pure]):
    """`sum = x + residual`, and `normed`, the `llmc.rms_norm` of it by `weight`, where given.

    This is what ends a block of a decoder layer: the sum goes on, the norm goes into the next.

        %sum, %normed = "llmc.add_rms_norm"(%x, %residual, %w)
           {operandSegmentSizes = array<i32: 1, 1, 1>, epsilon = 1.0e-5 : f64, offset = 0.0 : f64}
           : (tensor<1x?x576xf32>, tensor<1x?x576xf32>, tensor<576xf32>)
           -> (tensor<1x?x576xf32>, tensor<1x?x576xf32>)
    """

    x: ext.Operand[Any]
    residual: ext.Operand[Any]
    epsilon: ir.FloatAttr
    offset: ir.FloatAttr
    sum: ext.Result[Any]
    normed: ext.Result[Any]
    weight: ext.Operand[Any] | None = None

    @verified
    def verify_invariants(self) -> None:
        """Checks that all tensors are as x is, and that the weight fits its last dimension."""
        shape = tensor_of(self.x, "x")
        require(len(shape) >= 1, "operand 'x' must have a dimension")
        floats("x", self.x)
        tensor_of(self.residual, "residual")
        require(
            self.residual.type == self.x.type, f"operand 'residual' must be {self.x.type} as 'x' is"
        )
        if self.weight is None:
            static("x", self.x, len(shape) - 1)
            require(self.offset.value == 0, "attribute 'offset' must be 0 without a weight")
        else:
            stored = tensor_of(self.weight, "weight", 1)
            same_element("weight", self.weight, self.x)
            static("weight", self.weight)
            same("weight", "its length", stored[0], shape[-1])
        for name, result in (("sum", self.sum), ("normed", self.normed)):
            require(result.type == self.x.type, f"result '{name}' must be {self.x.type} as 'x' is")
        require(self.epsilon.value >= 0, "attribute 'epsilon' must not be negative")

    @staticmethod
    def reference(
        x: np.ndarray,
        residual: np.ndarray,
        weight: np.ndarray | None,
        epsilon: float,
        offset: float = 0.0,
    ) -> tuple[np.ndarray, np.ndarray]:
        """`x` and `residual [..., N]`, `weight [N]` -> twice `[..., N]`."""
        total = x + residual
        return total, RMSNormOp.reference(total, weight, epsilon, offset)

    def lower(self) -> list[ir.Value]:
        """An elementwise addition, and what `llmc.rms_norm` means of its result."""
        point = letters(self.x.type.rank)
        total = pointwise(
            f"{point},{point}->{point}",
            lambda x, residual, _: arith.addf(x, residual),
            self.x,
            self.residual,
        )
        norm = RMSNormOp(total, self.epsilon, self.offset, self.x.type, weight=self.weight)
        normed = norm.lower()
        norm.operation.erase()
        return [total, normed]
