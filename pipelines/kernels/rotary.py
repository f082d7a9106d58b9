"""The kernel of rotary position embedding for many tokens."""

from torch_mlir import ir
from torch_mlir.dialects import arith, scf

from llmc.dialects.index_notation import Size, index
from llmc.pipelines.kernels.head_row import HeadRows, Rotation
from llmc.pipelines.kernels.kernel import Kernel
from llmc.pipelines.kernels.vectors import store

# Tokens of a workgroup.
_TOKENS = 16


def rotary(batch: int, heads: int, channels: int, offset: int | None, widest: int) -> Kernel:
    """Operands `x`, `cos` and `sin [B or 1, T, R]`, result `[B, H, T, D]`, all of float32.

    `x` is as the result, or, where an `offset` is given, `[B, _, N]`, of which H heads of D
    channels count from there on. T is open. `widest` is the number of floats in a vector register.
    Linalg has no name for a channel's partner but as a reduction over pairs, which IREE 3.13 does
    number by number.
    """

    def grid(extents: list[ir.Value]) -> tuple[Size, Size]:
        return arith.ceildivui(extents[-1], index(_TOKENS)), batch * heads

    def build(
        tile: ir.Value,
        number: ir.Value,
        extents: list[ir.Value],
        x: ir.Value,
        cos: ir.Value,
        sin: ir.Value,
        out: ir.Value,
    ) -> None:
        sequence, head = (op(number, index(heads)) for op in (arith.divui, arith.remui))
        begin = arith.muli(tile, index(_TOKENS))
        end = arith.minui(arith.addi(begin, index(_TOKENS)), extents[-1])
        heads_of_x = HeadRows(x, channels, offset, widest)
        for token in scf.for_(begin, end, index(1)):
            place = [sequence, head, token]
            rotation = Rotation(cos, sin, sequence, token)
            row = heads_of_x.row(*place)
            row.rotate(rotation, lambda y, at: store(y, out, [*place, at]))  # noqa: B023
            scf.yield_([])

    return Kernel("rotary" if offset is None else f"rotary_{offset}", grid, build)
