"""What a linear layer with a weight in panels computes, in the form that its schedules work on."""

from torch_mlir import ir
from torch_mlir.dialects import arith

from llmc.dialects.index_notation import pointwise, reduce, slice_of
from llmc.pipelines.kernels.kernel import multiply_add


def panel_linear(
    x: ir.Value, weight: ir.Value, bias: ir.Value | None = None, parts: int = 1
) -> list[ir.Value]:
    """`x [T, K]`, `weight [P, K, J]` and `bias [P, J]` -> as many `[T, P / parts, J]` as `parts`.

    Weights may be narrower than x; sums are not.
    """
    return [_product(x, _part(weight, n, parts), _part(bias, n, parts)) for n in range(parts)]


def _product(x: ir.Value, weight: ir.Value, bias: ir.Value | None) -> ir.Value:
    def step(x: ir.Value, w: ir.Value, sum_: ir.Value) -> ir.Value:
        return multiply_add(x, w if w.type == x.type else arith.extf(x.type, w), sum_)

    y = reduce("tk,pkj->tpj", step, 0.0, x, weight)
    if bias is None:
        return y
    return pointwise("tpj,pj->tpj", lambda y, b, _: arith.addf(y, b), y, bias)


def _part(value: ir.Value | None, number: int, parts: int) -> ir.Value | None:
    """The panels of `value` that are part `number` of `parts`."""
    if value is None or parts == 1:
        return value
    panels, *rest = value.type.shape
    count = panels // parts
    extents = [count, *rest]
    return slice_of(value, [number * count, *[0] * len(rest)], extents, extents)
