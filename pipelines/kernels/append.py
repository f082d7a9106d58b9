"""The kernel that appends the keys or values of many tokens to a KV cache.

It makes cells of rows and writes them where they belong in a buffer that stands. Of a scatter and
the arithmetic before it IREE makes several dispatches, and no schedule can make them one.
"""

from functools import partial

from torch_mlir import ir
from torch_mlir.dialects import arith

from llmc.dialects.cache_cells import CellFormat
from llmc.dialects.index_notation import Size
from llmc.pipelines.kernels.cache_rows import RowWriter
from llmc.pipelines.kernels.head_row import Rotation
from llmc.pipelines.kernels.kernel import Kernel
from llmc.pipelines.kernels.token_heads import TokenHeads


def append(
    heads: TokenHeads, rotated: bool, interleaved: bool, format_: CellFormat | None
) -> Kernel:
    """Operands `x`, with `heads`, and `cos` and `sin [B or 1, T, R]` if `rotated`, `interleaved` or
    not, all of float32; updated is `cache [L, S, H, C, D]`, of that or a narrower type, or the
    bytes of cells, of `format_`, where it is given.

    The scalars are the layer, the first sequence, the first column and T.
    """

    def grid(extents: list[ir.Value]) -> tuple[Size, Size]:
        return heads.grid(extents[-1])

    def build(
        tile: ir.Value, number: ir.Value, extents: list[ir.Value], x: ir.Value, *rest: ir.Value
    ) -> None:
        *tables, cache = rest
        layer, first, column, tokens = extents[-4:]
        writer = RowWriter(cache, heads.widest, format_)
        for row, sequence, head, token in heads.each(x, tile, number, tokens):
            place = [layer, arith.addi(first, sequence), head, arith.addi(column, token)]
            rotation = Rotation(tables, sequence, token, interleaved) if rotated else None
            writer.append(place, partial(row.turn, rotation))

    parts = ["append", "rows" if heads.offset is None else str(heads.offset)]
    parts += ["interleaved"] if interleaved else []
    return Kernel("_".join(parts if format_ is None else [*parts, format_.name]), grid, build)
