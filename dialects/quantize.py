"""`llmc.quantize`: numbers as blocks."""

from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, ext, math, tensor
from torch_mlir.extras import types as T

from llmc.dialects.block_layout import BlockParts, pack
from llmc.dialects.blocks import BlockFormat
from llmc.dialects.checks import blocks, element_is, filled, in_blocks, shaped, tensor_of, verified
from llmc.dialects.index_notation import (
    constant,
    expand,
    index,
    letters,
    loop_index,
    pointwise,
    reduce,
    sizes,
)
from llmc.dialects.llmc import Operation


class QuantizeOp(Operation, name="quantize", traits=[ext.Pure]):
    """The blocks nearest to the rows of `x [..., K]`, as ggml's reference chooses them.

    Scale and minimum come from the range of a block's values, rounded to the nearest: formats with
    an offset divide the value of largest magnitude by that, negated; those with a minimum the range
    from the least to the largest, of 4 bits by 15, of 5 by 31; Q8_0 the largest magnitude by 127.
    `x` holds finite numbers.

        %w = "llmc.quantize"(%x) : (tensor<1536x576xf32>) -> tensor<1536x18x!llmc.q4_1>
    """

    x: ext.Operand[Any]
    out: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks that x is f32 in rows of whole blocks, and that the result has these."""
        *leading, width = tensor_of(self.x, "x", at_least=1)
        element_is("x", self.x, "f32")
        filled("x", self.x)
        shaped("out", self.out, [*leading, in_blocks("x", width, blocks("out", self.out).values)])

    @staticmethod
    def reference(x: np.ndarray, format_: BlockFormat) -> np.ndarray:
        """`x [..., K]` -> blocks `[..., K/G]`."""
        return format_.encode(x)

    def lower(self) -> ir.Value:
        """Reductions for scale and minimum, the integers, and their bits put together."""
        format_ = self.out.type.element_type.format
        rows = in_rows(self.x, format_.values)
        scale, minimum = _scale_and_minimum(rows, format_)
        integers = _integers(rows, scale, minimum, format_)
        return pack(BlockParts(integers, scale, minimum), format_)


def in_rows(x: ir.Value, values: int) -> ir.Value:
    """`x [..., K]` as `[..., K/G, G]`, G being `values`."""
    *leading, width = sizes(x)
    count = width // values if isinstance(width, int) else arith.divui(width, index(values))
    return expand(x, [*[[size] for size in leading], [count, values]])


def largest_magnitude(rows: ir.Value) -> ir.Value:
    """`rows [..., G]` -> `[...]`."""
    lead = letters(rows.type.rank - 1)
    return reduce(f"{lead}v->{lead}", lambda x, most: arith.maximumf(math.absf(x), most), 0.0, rows)


def divided(value: ir.Value, by: float) -> ir.Value:
    """Every element of `value` divided by a number."""
    lead, element = letters(value.type.rank), value.type.element_type
    return pointwise(f"{lead}->{lead}", lambda x, _: arith.divf(x, constant(by, element)), value)


def times_inverse(x: ir.Value, scale: ir.Value) -> ir.Value:
    """`x * (1 / scale)`, and 0 where the scale is 0: ggml multiplies, which rounds otherwise."""
    zero, one = constant(0.0, x.type), constant(1.0, x.type)
    is_zero = arith.cmpf(arith.CmpFPredicate.OEQ, scale, zero)
    return arith.mulf(x, arith.select(is_zero, zero, arith.divf(one, scale)))


def _scale_and_minimum(rows: ir.Value, format_: BlockFormat) -> tuple[ir.Value, ir.Value | None]:
    """Of `rows [..., G]`, each `[...]`."""
    if format_.bits == 8:
        return divided(largest_magnitude(rows), 127.0), None
    if not format_.has_minimum:
        return divided(_extreme(rows), -float(format_.offset)), None
    lead, infinity = letters(rows.type.rank - 1), float("inf")
    least = reduce(f"{lead}v->{lead}", arith.minimumf, infinity, rows)
    most = reduce(f"{lead}v->{lead}", arith.maximumf, -infinity, rows)
    notation = f"{lead},{lead}->{lead}"
    span = pointwise(notation, lambda a, b, _: arith.subf(a, b), most, least)
    return divided(span, float(format_.most)), least


def _extreme(rows: ir.Value) -> ir.Value:
    """The value of largest magnitude in each of `rows [..., G]`, the first of several."""
    lead, most = letters(rows.type.rank - 1), largest_magnitude(rows)
    i32 = T.i32()

    def earliest(x: ir.Value, most: ir.Value, first: ir.Value) -> ir.Value:
        is_it = arith.cmpf(arith.CmpFPredicate.OEQ, math.absf(x), most)
        here = arith.index_cast(i32, loop_index(len(lead)))
        return arith.select(is_it, arith.minui(here, first), first)

    def look_up(first: ir.Value, _: ir.Value) -> ir.Value:
        column = arith.index_cast(T.index(), first)
        return tensor.extract(rows, [*map(loop_index, range(len(lead))), column])

    last = rows.type.shape[-1] - 1
    first = reduce(f"{lead}v,{lead}->{lead}", earliest, last, rows, most, element=i32)
    return pointwise(f"{lead}->{lead}", look_up, first, element=rows.type.element_type)


def _integers(
    rows: ir.Value, scale: ir.Value, minimum: ir.Value | None, format_: BlockFormat
) -> ir.Value:
    """The integers nearest to `(rows - minimum) / scale`, i8 `[..., G]`."""
    lead, i8 = letters(rows.type.rank - 1), T.i8()
    operands = [rows, scale] if minimum is None else [rows, scale, minimum]

    def nearest(x: ir.Value, scale: ir.Value, *rest: ir.Value) -> ir.Value:
        x = x if minimum is None else arith.subf(x, rest[0])
        ratio = times_inverse(x, scale)
        if format_.bits == 8:
            return arith.fptosi(i8, math.round(ratio))
        stored = arith.addf(ratio, constant(format_.offset + 0.5, x.type))
        stored = arith.minui(arith.fptosi(i8, stored), constant(format_.most, i8))
        return arith.subi(stored, constant(format_.offset, i8))

    notation = ",".join([f"{lead}v", *[lead] * (len(operands) - 1)])
    return pointwise(f"{notation}->{lead}v", nearest, *operands, element=i8)
