"""`llmc.rms_norm`: root mean square normalisation."""

from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import arith, ext, math

from llmc.dialects.checks import floats, require, same, same_element, static, tensor_of, verified
from llmc.dialects.index_notation import constant, pointwise, reduce
from llmc.dialects.llmc import Operation


class RMSNormOp(Operation, name="rms_norm", traits=[ext.Pure]):
    """`x / sqrt(mean(x^2) + epsilon) * (offset + weight)` over the last dimension of x.

    Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019. Gemma's offset is 1.

        %y = "llmc.rms_norm"(%x, %w) {epsilon = 1.0e-5 : f64, offset = 0.0 : f64}
           : (tensor<1x?x576xf32>, tensor<576xf32>) -> tensor<1x?x576xf32>
    """

    x: ext.Operand[Any]
    weight: ext.Operand[Any]
    epsilon: ir.FloatAttr
    offset: ir.FloatAttr
    out: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks that the weight fits x's last dimension."""
        shape = tensor_of(self.x, "x")
        require(len(shape) >= 1, "operand 'x' must have a dimension")
        floats("x", self.x)
        stored = tensor_of(self.weight, "weight", 1)
        same_element("weight", self.weight, self.x)
        static("weight", self.weight)
        same("weight", "its length", stored[0], shape[-1])
        require(self.out.type == self.x.type, f"result must be {self.x.type} as 'x' is")
        require(self.epsilon.value >= 0, "attribute 'epsilon' must not be negative")

    def lower(self) -> ir.Value:
        """A reduction for the mean square, then one elementwise operation."""
        rank, element = self.x.type.rank, self.x.type.element_type
        full = "abcdefgh"[: rank - 1] + "n"
        rows = full[:-1]
        width = float(self.weight.type.get_dim_size(0))
        squares = reduce(
            f"{full}->{rows}", lambda x, sum_: arith.addf(sum_, arith.mulf(x, x)), 0.0, self.x
        )

        def normalise(x: ir.Value, square: ir.Value, weight: ir.Value, _: ir.Value) -> ir.Value:
            mean = arith.divf(square, constant(width, element))
            scale = math.rsqrt(arith.addf(mean, constant(self.epsilon.value, element)))
            if self.offset.value:
                weight = arith.addf(weight, constant(self.offset.value, element))
            return arith.mulf(arith.mulf(x, scale), weight)

        return pointwise(f"{full},{rows},n->{full}", normalise, self.x, squares, self.weight)
