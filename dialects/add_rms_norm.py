"""`llmc.add_rms_norm`: a residual addition and the normalisation of its sum."""

from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, ext

from llmc.dialects.checks import (
    averaged,
    floats,
    like,
    not_negative,
    number,
    require,
    same,
    same_element,
    static,
    tensor_of,
    verified,
)
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
        shape = tensor_of(self.x, "x", at_least=1)
        floats("x", self.x)
        tensor_of(self.residual, "residual")
        like("residual", self.residual, "x", self.x)
        if self.weight is None:
            static("x", self.x, len(shape) - 1)
            averaged("x", self.x)
            fault = f"must be 0 without a weight, but is {self.offset.value}"
            require(self.offset.value == 0, fault, "offset")
        else:
            stored = tensor_of(self.weight, "weight", 1)
            same_element("weight", self.weight, self.x)
            static("weight", self.weight)
            averaged("weight", self.weight)
            same("weight", "its length", stored[0], shape[-1])
        for name, result in (("sum", self.sum), ("normed", self.normed)):
            like(name, result, "x", self.x)
        not_negative("epsilon", self.epsilon, self.x)
        number("offset", self.offset, self.x)

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
