"""`llmc.expert_linear`: a linear layer whose matrix each row chooses."""

from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import arith, ext, tensor

from llmc.dialects.checks import (
    floats,
    integers,
    same,
    same_element,
    shaped,
    static,
    tensor_of,
    verified,
)
from llmc.dialects.index_notation import loop_index, reduce
from llmc.dialects.llmc import Operation


class ExpertLinearOp(Operation, name="expert_linear", traits=[ext.Pure]):
    """Row r of `x [R, K]` times the transpose of `weight[expert[r]]`, a matrix of `[E, N, K]`.

    `transposed` 1: the matrices are stored `[E, K, N]`. Shazeer et al., 2017.

        %y = "llmc.expert_linear"(%x, %expert, %w) {transposed = 0 : i64}
           : (tensor<?x64xf32>, tensor<?xi64>, tensor<8x256x64xf32>) -> tensor<?x256xf32>
    """

    x: ext.Operand[Any]
    expert: ext.Operand[Any]
    weight: ext.Operand[Any]
    transposed: ir.IntegerAttr
    out: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks rows, K and N across operands."""
        rows, inputs = tensor_of(self.x, "x", 2)
        floats("x", self.x)
        same("expert", "its length", tensor_of(self.expert, "expert", 1)[0], rows)
        integers("expert", self.expert)
        _, outputs, columns = tensor_of(self.weight, "weight", 3)
        floats("weight", self.weight, widened_to=self.x)
        static("weight", [outputs, columns])
        if self.transposed.value:
            outputs, columns = columns, outputs
        same("x", "its last dimension", inputs, columns)
        shaped("out", self.out, [rows, outputs])
        same_element("out", self.out, self.x)

    def lower(self) -> ir.Value:
        """A contraction that reads the chosen matrix where it lies."""
        weight, transposed = self.weight, self.transposed.value

        def multiply_add(x: ir.Value, expert: ir.Value, sum_: ir.Value) -> ir.Value:
            which = arith.index_cast(ir.IndexType.get(), expert)
            n, k = loop_index(1), loop_index(2)
            element = tensor.extract(weight, [which, k, n] if transposed else [which, n, k])
            if element.type != x.type:
                element = arith.extf(x.type, element)
            return arith.addf(sum_, arith.mulf(x, element))

        outputs = weight.type.get_dim_size(2 if transposed else 1)
        return reduce("rk,r->rn", multiply_add, 0.0, self.x, self.expert, n=outputs)
