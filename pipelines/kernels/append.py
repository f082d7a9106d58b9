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
from llmc.pipelines.kernels.head_row import NormConstants, Preparation, Rotation
from llmc.pipelines.kernels.kernel import Kernel, div_rem
from llmc.pipelines.kernels.token_heads import TokenHeads


def append(
    heads: TokenHeads,
    rotated: bool,
    interleaved: bool,
    norm: NormConstants | None,
    format_: CellFormat | None,
) -> Kernel:
    """Operands `x`, with `heads`, `cos` and `sin [B or 1, T, R]` if `rotated`, `interleaved` or
    not, and, with a `norm`, its `weight [layers, D]`, all of float32; updated is `cache
    [L, S, H, C, D]`, of that or a narrower type, or the bytes of cells, of `format_`, where it is
    given.

    The scalars are the weight's layer, with a norm, the cache's layer, the first sequence, the
    first column, the tokens of each sequence, where several follow each other in `x`, and T.
    """

    def grid(extents: list[ir.Value]) -> tuple[Size, Size]:
        return heads.grid(extents[-1])

    def build(
        tile: ir.Value, number: ir.Value, extents: list[ir.Value], x: ir.Value, *rest: ir.Value
    ) -> None:
        *given, cache = rest
        tables = given[: 2 * rotated]
        layer, first, column, tokens_each, tokens = extents[-5:]
        own_norm = norm.of(given[-1], extents[-6]) if norm else None
        writer = RowWriter(cache, heads.channels, heads.widest, format_)
        for row, sequence, head, token in heads.each(x, tile, number, tokens):
            following, offset = div_rem(token, tokens_each)
            held_as = arith.addi(arith.addi(first, sequence), following)
            place = [layer, held_as, head, arith.addi(column, offset)]
            rotation = Rotation(tables, sequence, token, interleaved) if rotated else None
            preparation = Preparation(rotation, None, own_norm)
            writer.append(place, partial(preparation.key, row))

    parts = ["append", "rows" if heads.offset is None else str(heads.offset)]
    parts += ["interleaved"] if interleaved else []
    parts += [norm.text] if norm else []
    return Kernel("_".join(parts if format_ is None else [*parts, format_.name]), grid, build)
