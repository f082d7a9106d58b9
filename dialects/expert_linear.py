"""`llmc.expert_linear`: a linear layer whose matrix each row chooses."""

from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import arith, ext, tensor

from llmc.dialects.checks import (
    floats,
    integers,
    require,
    same,
    same_element,
    shaped,
    static,
    tensor_of,
    verified,
)
from llmc.dialects.index_notation import collapse, expand, loop_index, reduce, size
from llmc.dialects.llmc import Operation


class ExpertLinearOp(Operation, name="expert_linear", traits=[ext.Pure]):
    """Rows of `x [R, K]`, each through `top_k` of the matrices `weight [E, N, K]`.

    Row r of the result is row `r / top_k` of x times the transpose of `weight[expert[r]]`; the
    `R * top_k` numbers in `expert` are less than E. `transposed` 1: the matrices are stored
    `[E, K, N]`. Their element type may be narrower than x's; sums are kept in x's type. Shazeer et
    al., "Outrageously Large Neural Networks", 2017.

        %y = "llmc.expert_linear"(%x, %expert, %w) {top_k = 2 : i64, transposed = 0 : i64}
           : (tensor<?x64xf32>, tensor<?xi64>, tensor<8x256x64xf32>) -> tensor<?x256xf32>
    """

    x: ext.Operand[Any]
    expert: ext.Operand[Any]
    weight: ext.Operand[Any]
    top_k: ir.IntegerAttr
    transposed: ir.IntegerAttr
    out: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks rows, K and N across operands."""
        _, outputs, inputs = tensor_of(self.weight, "weight", 3)
        static("weight", self.weight)
        if self.transposed.value:
            outputs, inputs = inputs, outputs
        check_expert_rows(self, inputs, outputs)
        rows, _ = tensor_of(self.out, "out", 2)
        same("expert", "its length", tensor_of(self.expert, "expert", 1)[0], rows)
        integers("expert", self.expert)

    def lower(self) -> ir.Value:
        """A contraction that reads the chosen matrix where it lies."""
        weight, transposed = self.weight, self.transposed.value

        def multiply_add(x: ir.Value, expert: ir.Value, sum_: ir.Value) -> ir.Value:
            which = arith.index_cast(ir.IndexType.get(), expert)
            n, k = loop_index(2), loop_index(3)
            element = tensor.extract(weight, [which, k, n] if transposed else [which, n, k])
            if element.type != x.type:
                element = arith.extf(x.type, element)
            return arith.addf(sum_, arith.mulf(x, element))

        outputs = weight.type.get_dim_size(2 if transposed else 1)
        chosen = expand(self.expert, [[size(self.x, 0), self.top_k.value]])
        y = reduce("rk,rc->rcn", multiply_add, 0.0, self.x, chosen, n=outputs)
        return collapse(y, [2, 1])


def check_expert_rows(op: Any, inputs: int, outputs: int) -> None:
    """Checks `x [R, inputs]`, `out [R * top_k, outputs]` and the element type of `weight`."""
    rows, width = tensor_of(op.x, "x", 2)
    floats("x", op.x)
    floats("weight", op.weight, widened_to=op.x)
    same("x", "its last dimension", width, inputs)
    require(op.top_k.value > 0, "attribute 'top_k' must be positive")
    shaped("out", op.out, [None if rows is None else rows * op.top_k.value, outputs])
    same_element("out", op.out, op.x)
