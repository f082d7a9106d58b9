"""What all linear layers share in linalg: any leading dimensions are those of rows."""

from collections.abc import Callable

from torch_mlir import ir
from torch_mlir.dialects import arith

from llmc.dialects.index_notation import Size, collapse, expand, pointwise, size, sizes


def on_rows(
    x: ir.Value, multiply: Callable[[ir.Value], ir.Value], bias: ir.Value | None = None
) -> ir.Value:
    """What `multiply` makes of the rows of x, plus `bias [N]` where there is one.

    That is `[T, N]` of `[T, K]`, and so `[..., N]` of `x [..., K]`.
    """
    leading = sizes(x)[:-1]
    return apart(multiply(merged(x)), leading, bias)


def merged(x: ir.Value) -> ir.Value:
    """`x [..., K]` as rows `[T, K]`."""
    rank = x.type.rank
    return x if rank == 2 else collapse(x, [rank - 1, 1])


def apart(y: ir.Value, leading: list[Size], bias: ir.Value | None = None) -> ir.Value:
    """Rows `y [T, N]`, plus `bias [N]` where there is one, as `[..., N]`: T is all of `leading`."""
    if bias is not None:
        y = pointwise("tn,n->tn", lambda a, b, _: arith.addf(a, b), y, bias)
    return y if len(leading) == 1 else expand(y, [leading, [size(y, 1)]])
