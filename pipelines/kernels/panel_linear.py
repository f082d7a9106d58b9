"""What a linear layer with a weight in panels computes, in the form that its schedules work on."""

from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith

from llmc.dialects.float_bits import join
from llmc.dialects.index_notation import part, pointwise, reduce, widened
from llmc.pipelines.kernels.kernel import multiply_add


def panel_linear(
    x: ir.Value,
    weight: Sequence[ir.Value],
    element: ir.Type,
    bias: ir.Value | None = None,
    parts: int = 1,
) -> list[ir.Value]:
    """`x [T, K]`, `weight [P, K, J]` and `bias [P, J]` -> as many `[T, P / parts, J]` as `parts`.

    Sums and results are of type `element`, which x and weights may be narrower than. A weight is
    its numbers, or the integers that `llmc.join_float` makes numbers of: the high bits alone, or
    these and the low ones.
    """

    def product(number: int) -> ir.Value:
        y = _product(x, [_part(bits, number, parts) for bits in weight], element)
        return y if bias is None else add_bias(y, _part(bias, number, parts))

    return [product(number) for number in range(parts)]


def _product(x: ir.Value, weight: list[ir.Value], element: ir.Type) -> ir.Value:
    def step(x: ir.Value, *others: ir.Value) -> ir.Value:
        *bits, sum_ = others
        return multiply_add(widened(x, element), _number(bits, element), sum_)

    operands = ",".join(["tk", *["pkj"] * len(weight)])
    return reduce(f"{operands}->tpj", step, 0.0, x, *weight, element=element)


def add_bias(y: ir.Value, bias: ir.Value) -> ir.Value:
    """`y [T, P, J]` with `bias [P, J]` added to each row."""
    return pointwise("tpj,pj->tpj", lambda y, b, _: arith.addf(y, b), y, bias)


def _number(bits: list[ir.Value], wide: ir.Type) -> ir.Value:
    """A number of a weight, of type `wide`."""
    first, *_ = bits
    return join(*bits) if isinstance(first.type, ir.IntegerType) else widened(first, wide)


def _part(value: ir.Value, number: int, parts: int) -> ir.Value:
    """The panels of `value` that are part `number` of `parts`."""
    if parts == 1:
        return value
    count = value.type.shape[0] // parts
    return part(value, number * count, count)
