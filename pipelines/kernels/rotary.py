"""The kernel of rotary position embedding for many tokens."""

from torch_mlir import ir
from torch_mlir.dialects import arith, scf

from llmc.dialects.index_notation import Size, index
from llmc.pipelines.kernels.head_row import HeadRow, Rotation
from llmc.pipelines.kernels.kernel import Kernel
from llmc.pipelines.kernels.vectors import store

# Tokens of a workgroup.
_TOKENS = 16


def rotary(batch: int, heads: int, widest: int) -> Kernel:
    """Operands `x [B, H, T, D]`, `cos` and `sin [B or 1, T, R]`, result as x, all of float32.

    T is open. `widest` is the number of floats in a vector register. Linalg has no name for a
    channel's partner but as a reduction over pairs, which IREE 3.13 does number by number.
    """

    def grid(extents: list[ir.Value]) -> tuple[Size, Size]:
        return arith.ceildivui(extents[0], index(_TOKENS)), batch * heads

    def build(
        tile: ir.Value,
        row: ir.Value,
        extents: list[ir.Value],
        x: ir.Value,
        cos: ir.Value,
        sin: ir.Value,
        out: ir.Value,
    ) -> None:
        sequence, head = (op(row, index(heads)) for op in (arith.divui, arith.remui))
        begin = arith.muli(tile, index(_TOKENS))
        end = arith.minui(arith.addi(begin, index(_TOKENS)), extents[0])
        for token in scf.for_(begin, end, index(1)):
            where = [sequence, head, token]
            channels = HeadRow(x, where, index(0), x.type.shape[3], widest)
            rotation = Rotation(cos, sin, sequence, token)
            channels.rotate(rotation, lambda y, at: store(y, out, [*where, at]))  # noqa: B023
            scf.yield_([])

    return Kernel("rotary", grid, build)
