"""`llmc.scale_columns`: a weight with its columns scaled."""

from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, ext

from llmc.dialects.checks import floats, like, number, same, same_element, tensor_of, verified
from llmc.dialects.index_notation import constant, letters, pointwise
from llmc.dialects.llmc import Operation


class ScaleColumnsOp(Operation, name="scale_columns", traits=[ext.Pure]):
    """`weight [..., K]` times `offset + scale [K]`: the matrix of a linear layer after a scaling.

    A linear layer of x times s is one of x, the columns of whose weight are scaled by s.

        %v = "llmc.scale_columns"(%w, %s) {offset = 0.0 : f64}
           : (tensor<1536x576xf32>, tensor<576xf32>) -> tensor<1536x576xf32>
    """

    weight: ext.Operand[Any]
    scale: ext.Operand[Any]
    offset: ir.FloatAttr
    out: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks K across operands."""
        shape = tensor_of(self.weight, "weight", at_least=1)
        floats("weight", self.weight)
        same("scale", "its length", tensor_of(self.scale, "scale", 1)[0], shape[-1])
        same_element("scale", self.scale, self.weight)
        like("out", self.out, "weight", self.weight)
        number("offset", self.offset, self.weight)

    @staticmethod
    def reference(weight: np.ndarray, scale: np.ndarray, offset: float) -> np.ndarray:
        """`weight [..., K]`, `scale [K]` -> `[..., K]`."""
        return weight * (offset + scale)

    def lower(self) -> ir.Value:
        """One elementwise operation."""
        lead = letters(self.weight.type.rank - 1)

        def multiply(weight: ir.Value, scale: ir.Value, _: ir.Value) -> ir.Value:
            offset = constant(self.offset.value, scale.type)
            return arith.mulf(weight, arith.addf(scale, offset))

        return pointwise(f"{lead}n,n->{lead}n", multiply, self.weight, self.scale)
