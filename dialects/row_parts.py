"""Long rows in parts: a sum over a row of those of its parts has more to do side by side."""

from torch_mlir import ir
from torch_mlir.dialects import arith

from llmc.dialects.divisor import divisor
from llmc.dialects.index_notation import expand, reduce, size

_LONGEST = 512


def in_parts(x: ir.Value) -> ir.Value:
    """`x [R, N]` as `[R, P, W]`, in P equal parts, each of 512 numbers at most."""
    columns = x.type.shape[1]
    width = divisor(columns, _LONGEST)
    return expand(x, [[size(x, 0)], [columns // width, width]])


def sum_of(parts: ir.Value) -> ir.Value:
    """The sum of each row, `[R]`, of its `parts [R, P, W]`."""
    return reduce("rp->r", arith.addf, 0.0, reduce("rpn->rp", arith.addf, 0.0, parts))
