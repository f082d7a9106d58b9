"""The kernel that appends the keys or values of many tokens to a KV cache."""

from torch_mlir import ir
from torch_mlir.dialects import arith, scf

from llmc.dialects.index_notation import Size, index
from llmc.pipelines.kernels.head_row import HeadRows, Rotation
from llmc.pipelines.kernels.kernel import Kernel
from llmc.pipelines.kernels.vectors import store

# Tokens of a workgroup.
_TOKENS = 16


def append(
    batch: int, heads: int, channels: int, offset: int | None, rotated: bool, widest: int
) -> Kernel:
    """Operands `x`, and `cos` and `sin [B or 1, T, R]` if `rotated`, all of float32; updated is
    `cache [L, S, H, C, D]`, of that or a narrower type.

    `x` is `[B, H, T, D]`, or, where an `offset` is given, `[B, _, N]`, of which H heads of D
    channels count from there on. The scalars are the layer, the first sequence, the first column
    and T. `widest` is the number of floats in a vector register.
    """

    def grid(extents: list[ir.Value]) -> tuple[Size, Size]:
        return arith.ceildivui(extents[-1], index(_TOKENS)), batch * heads

    def build(
        tile: ir.Value, number: ir.Value, extents: list[ir.Value], x: ir.Value, *rest: ir.Value
    ) -> None:
        *tables, cache = rest
        layer, first, column, tokens = extents[-4:]
        sequence, head = (op(number, index(heads)) for op in (arith.divui, arith.remui))
        begin = arith.muli(tile, index(_TOKENS))
        end = arith.minui(arith.addi(begin, index(_TOKENS)), tokens)
        rows, to = HeadRows(x, channels, offset, widest), arith.addi(first, sequence)
        for token in scf.for_(begin, end, index(1)):
            place = [layer, to, head, arith.addi(column, token)]
            row = rows.row(sequence, head, token)

            def write(value: ir.Value, at: ir.Value) -> None:
                store(value, cache, [*place, at])  # noqa: B023

            if rotated:
                cos, sin = tables
                row.rotate(Rotation(cos, sin, sequence, token), write)
            else:
                row.copy(write)
            scf.yield_([])

    return Kernel(f"append_{'rows' if offset is None else offset}", grid, build)
