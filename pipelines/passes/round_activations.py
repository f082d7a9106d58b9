"""`round-activations`: multiplies numbers of 16 bits, as tensor cores do."""

from dataclasses import dataclass
from math import prod
from typing import Annotated, ClassVar

from torch_mlir import ir
from torch_mlir.dialects import arith
from torch_mlir.extras import types as T

from llmc.dialects import LinearOp
from llmc.dialects.index_notation import pointwise, reduce
from llmc.dialects.linear_rows import on_rows
from llmc.pipelines.option_text import Range
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.walks import find


@dataclass(frozen=True)
class RoundActivations(Pass):
    """Lowers linear layers whose weights are floats of 16 bits to products of two such numbers.

    Sums stay in f32. Those of a fixed number of rows that is a multiple of `rows` alone are
    lowered: fewer do not fill a tensor core, and are bound by memory. Changes numerics: activations
    are rounded to the type of the weights, of which float16 ends at 65504.
    """

    name: ClassVar[str] = "round-activations"
    rows: Annotated[int, Range(1, 2**31 - 1)] = 16

    def apply(self, module: ir.Module) -> None:
        """Rewrites operation by operation."""
        for op in find(module.operation, "llmc.linear"):
            if self._fits(op.opview):
                with ir.InsertionPoint(op), op.location:
                    y = _multiply(op.opview)
                op.results[0].replace_all_uses_with(y)
                op.erase()

    def _fits(self, linear: LinearOp) -> bool:
        *leading, _ = linear.x.type.shape
        wide, narrow = (each.type.element_type for each in (linear.x, linear.weight))
        return (
            min(leading) > 0
            and prod(leading) % self.rows == 0
            and narrow.width == 16
            and wide == T.f32()
        )


def _multiply(linear: LinearOp) -> ir.Value:
    narrow, wide = linear.weight.type.element_type, linear.x.type.element_type
    stored = "kn" if linear.transposed.value else "nk"

    def multiply_add(x: ir.Value, weight: ir.Value, sum_: ir.Value) -> ir.Value:
        return arith.addf(sum_, arith.mulf(arith.extf(wide, x), arith.extf(wide, weight)))

    def multiply(rows: ir.Value) -> ir.Value:
        rounded = pointwise("tk->tk", lambda x, _: arith.truncf(narrow, x), rows, element=narrow)
        operands = rounded, linear.weight
        return reduce(f"tk,{stored}->tn", multiply_add, 0.0, *operands, element=wide)

    return on_rows(linear.x, multiply, linear.bias)
