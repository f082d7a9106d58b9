"""`llmc.expert_linear`: a linear layer whose matrix each row chooses."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, ext, tensor
from torch_mlir.extras import types as T

from llmc.dialects.block_layout import dequantize
from llmc.dialects.block_types import block_format
from llmc.dialects.blocks import decode
from llmc.dialects.checks import (
    blocks,
    counts,
    element_is,
    flag,
    floats,
    integers,
    multiple,
    require,
    same,
    same_element,
    shaped,
    static,
    tensor_of,
    verified,
)
from llmc.dialects.index_notation import (
    as_value,
    collapse,
    expand,
    loop_index,
    reduce,
    size,
    widened,
)
from llmc.dialects.llmc import Operation
from llmc.dialects.parameter import stored_unit
from llmc.dialects.sharding_rule import Dim, ShardingRule, by_letters


class ExpertLinearOp(Operation, name="expert_linear", traits=[ext.Pure]):
    """Rows of `x [R, K]`, each through `top_k` of the matrices `weight [E, N, K]`.

    Row r of the result is row `r / top_k` of x times the transpose of `weight[expert[r]]`; the
    `R * top_k` numbers in `expert` are less than E. `transposed` 1: the matrices are stored
    `[E, K, N]`. Their element type may be narrower than x's; sums are kept in x's type. They may
    be blocks `[E, N, K/G]`, whose values `llmc.dequantize` gives. Shazeer et al., "Outrageously
    Large Neural Networks", 2017.

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
        flag("transposed", self.transposed)
        tensor_of(self.x, "x", 2)
        if block_format(self.weight.type):
            inputs *= blocks("weight", self.weight).values
            element_is("x", self.x, "f32")
            require(not self.transposed.value, "must be 0 where 'weight' is blocks", "transposed")
        else:
            floats("x", self.x)
            floats("weight", self.weight, widened_to=self.x)
        if self.transposed.value:
            outputs, inputs = inputs, outputs
        check_expert_rows(self, "expert", inputs, outputs)

    def sharding(self) -> ShardingRule:
        """By outputs, by inputs or by experts, both of which leave sums: 0 for others' experts."""
        stored = "ekn" if self.transposed.value else "enk"
        if format_ := block_format(self.weight.type):
            blocks_of = Dim("k", Fraction(1, format_.values))
            dims = {"c": blocks_of}
            return by_letters(self, sums="ke", dims=dims, x=".k", weight="enc", out=".n")
        in_row = {stored[-1]: stored_unit(self.weight)}
        return by_letters(self, sums="ke", units=in_row, x=".k", weight=stored, out=".n")

    @staticmethod
    def reference(
        x: np.ndarray, expert: np.ndarray, weight: np.ndarray, top_k: int, transposed: bool = False
    ) -> np.ndarray:
        """`x [R, K]`, `expert [R * top_k]`, `weight [E, N, K]` -> `[R * top_k, N]`."""
        matrices = weight if transposed else decode(weight).swapaxes(1, 2)
        return np.einsum("rk,rkn->rn", np.repeat(x, top_k, axis=0), matrices[expert])

    def lower(self) -> ir.Value:
        """A contraction that reads the chosen matrix where it lies."""
        is_blocks = block_format(self.weight.type) is not None
        weight = dequantize(self.weight) if is_blocks else self.weight
        is_transposed = self.transposed.value
        outputs = weight.type.shape[2 if is_transposed else 1]

        def place(expert: ir.Value, n: ir.Value, k: ir.Value) -> list[ir.Value]:
            return [expert, k, n] if is_transposed else [expert, n, k]

        return contract_chosen(self, self.top_k.value, self.expert, weight, outputs, place)


def contract_chosen(
    op: Any,
    top_k: int,
    expert: ir.Value,
    weight: ir.Value,
    outputs: int,
    place: Callable[[ir.Value, ir.Value, ir.Value], list[ir.Value]],
) -> ir.Value:
    """Row r of an operation's `x [R, K]`, `top_k` times, through the matrix that `expert` says.

    That is `[R * top_k]`. Element n, k of matrix e is that of `weight` at `place(e, n, k)`; there
    are `outputs` n. Numbers are widened to the type of the operation's `out`.
    """
    x, element = op.x, op.out.type.element_type

    def multiply_add(x: ir.Value, expert: ir.Value, sum_: ir.Value) -> ir.Value:
        which = arith.index_cast(T.index(), expert)
        weight_at = tensor.extract(weight, place(which, loop_index(2), loop_index(3)))
        return arith.addf(sum_, arith.mulf(widened(x, element), widened(weight_at, element)))

    count = size(expert, 0)
    rows = count // top_k if isinstance(count, int) else as_value(size(x, 0))
    chosen = expand(expert, [[rows, top_k]])
    y = reduce("rk,rc->rcn", multiply_add, 0.0, x, chosen, element=element, n=outputs)
    return collapse(y, [2, 1])


def check_expert_rows(op: Any, per_row: str, inputs: int, outputs: int) -> None:
    """Checks `x [R, inputs]` and `out [R * top_k, outputs]`.

    `per_row` is the name of the operand that holds an integer for each row of the result.
    """
    rows, width = tensor_of(op.x, "x", 2)
    same("x", "its last dimension", width, inputs)
    top_k = op.top_k.value
    counts("top_k", op.top_k)
    chosen = None if rows is None else rows * top_k
    shaped("out", op.out, [chosen, outputs])
    same_element("out", op.out, op.x)
    integers_of_rows = getattr(op, per_row)
    count = tensor_of(integers_of_rows, per_row, 1)[0]
    for expected in (chosen, tensor_of(op.out, "out", 2)[0]):
        same(per_row, "its length", count, expected)
    multiple(per_row, "its length", count, top_k)
    integers(per_row, integers_of_rows)
