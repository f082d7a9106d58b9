"""Long rows in parts: a sum over a row of those of its parts has more to do side by side."""

from torch_mlir import ir

from llmc.dialects.divisor import divisor
from llmc.dialects.index_notation import expand, size

_LONGEST = 512


def in_parts(x: ir.Value) -> ir.Value:
    """`x [R, N]` as `[R, P, W]`, in P equal parts, each of 512 numbers at most."""
    columns = x.type.shape[1]
    width = divisor(columns, _LONGEST)
    return expand(x, [[size(x, 0)], [columns // width, width]])
