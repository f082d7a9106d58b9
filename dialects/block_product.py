"""Products of rows with panels of blocks in linalg, in integers."""

from torch_mlir import ir
from torch_mlir.dialects import arith
from torch_mlir.extras import types as T

from llmc.dialects.block_layout import BlockParts
from llmc.dialects.index_notation import (
    collapse,
    pointwise,
    reduce,
    size,
    slice_of,
)
from llmc.dialects.linear_rows import on_rows
from llmc.dialects.quantize import in_rows
from llmc.dialects.quantize_rows import nearest_integers


def multiply_panels(
    x: ir.Value, weight: BlockParts, outputs: int, bias: ir.Value | None = None
) -> ir.Value:
    """`x [..., K]`, rounded to integers, times the parts `[N/J, K/G, J]` of panels: f32 `[..., N]`.

    N is `outputs`, and `bias [N]` is added where there is one.
    """
    return on_rows(x, lambda rows: first_outputs(multiply_blocks(rows, weight), outputs), bias)


def multiply_blocks(rows: ir.Value, weight: BlockParts, each: str = "pbj") -> ir.Value:
    """`rows [T, K]`, rounded to integers, times the parts of panels: f32 `[T, N/J, J]`.

    `each` spells the dimensions of these: `[N/J, K/G, J]`, or, as "tpbj", those of each row.
    """
    _, values = weight.integers.type.shape[-2:]
    return sum_blocks(*nearest_integers(in_rows(rows, values)), weight, each)


def sum_blocks(x: ir.Value, scales: ir.Value, weight: BlockParts, each: str) -> ir.Value:
    """Integers `x [T, K/G, G]` and their `scales [T, K/G]` times the parts of a weight, in f32.

    `each` spells the dimensions of the parts; those of the result are the same without the blocks
    b, and begin with the rows t. Products are summed within a block, and then over blocks.
    """
    i32, f32 = T.i32(), scales.type.element_type
    products = f"t{each.removeprefix('t')}"
    sums = products.replace("b", "")

    def multiply_add(x: ir.Value, w: ir.Value, sum_: ir.Value) -> ir.Value:
        product = arith.muli(arith.extsi(i32, x), arith.extsi(i32, w))
        return arith.addi(sum_, product)

    def scale_add(dot: ir.Value, x: ir.Value, w: ir.Value, sum_: ir.Value) -> ir.Value:
        product = arith.mulf(arith.sitofp(f32, dot), arith.mulf(x, w))
        return arith.addf(sum_, product)

    dots = reduce(f"tbv,{each}v->{products}", multiply_add, 0, x, weight.integers, element=i32)
    y = reduce(
        f"{products},tb,{each}->{sums}", scale_add, 0.0, dots, scales, weight.scale, element=f32
    )
    if weight.minimum is None:
        return y
    totals = reduce(
        "tbv->tb", lambda x, sum_: arith.addi(sum_, arith.extsi(i32, x)), 0, x, element=i32
    )
    shares = reduce(
        f"tb,tb,{each}->{sums}", scale_add, 0.0, totals, scales, weight.minimum, element=f32
    )
    return pointwise(f"{sums},{sums}->{sums}", lambda a, b, _: arith.addf(a, b), y, shares)


def first_outputs(y: ir.Value, outputs: int) -> ir.Value:
    """`[T, outputs]` of `y [T, N/J, J]`: the last panel may be padded."""
    y = collapse(y, [1, 2])
    extents = [size(y, 0), outputs]
    return y if y.type.shape[1] == outputs else slice_of(y, [0, 0], extents, extents)
