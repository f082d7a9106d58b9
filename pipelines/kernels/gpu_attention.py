"""The kernel of attention for many tokens on a GPU, whose keys and values the cache has.

A workgroup has a tile of the rows that share a key head, each a head of a token, and walks over the
columns that any of them sees. Dao et al., "FlashAttention", 2022.
"""

from torch_mlir import ir
from torch_mlir.dialects import arith, scf

from llmc.dialects.index_notation import Size, index
from llmc.pipelines.kernels.attention import AttentionShape
from llmc.pipelines.kernels.kernel import Kernel, div_rem, load_index
from llmc.pipelines.kernels.launch import Launch
from llmc.pipelines.kernels.online_softmax import Caches
from llmc.pipelines.kernels.raw_heads import RawHeads
from llmc.pipelines.kernels.splat import splat
from llmc.pipelines.kernels.threads import store_lanes, wait
from llmc.pipelines.kernels.workgroup_softmax import (
    RowTile,
    WorkgroupSoftmax,
    factor,
    store_channels,
)
from llmc.runtime.vm_function import Integers


def attend_to_tokens(
    shape: AttentionShape, heads: RawHeads, tokens: int, tile: RowTile, integers: Integers
) -> Kernel:
    """Operands `query`, with `heads`, `keys [L, S, G, C, D]`, `values [L, S, G, C, E]`, `start
    [B]`, and the factors of the heads. The result is `[B, T, H, E]`; T is `tokens`.

    All but the caches, whose floats may be narrower, hold float32. The scalars are the layer, the
    first sequence and the column of the first token. The rows of a `tile` share a key head.
    """

    def grid(_extents: list[ir.Value]) -> tuple[Size, Size]:
        return tokens * shape.sharing // tile.rows, shape.batch * shape.key_heads

    def build(
        number: ir.Value,
        group: ir.Value,
        extents: list[ir.Value],
        query: ir.Value,
        keys: ir.Value,
        values: ir.Value,
        start: ir.Value,
        *rest: ir.Value,
    ) -> None:
        *factors, out = rest
        layer, first, past = extents[-3:]
        row, head = div_rem(group, shape.key_heads)
        caches = Caches(keys, values, [layer, arith.addi(first, row), head])
        rows = _Rows(shape, tile, row, head, number, past)
        softmax = WorkgroupSoftmax(tile, caches, shape.softcap)
        rows.load(query, heads, factors, softmax.query, layer)
        wait()
        columns = rows.columns(load_index(start, row))
        state = softmax.attend(softmax.nothing(), *columns, rows.sees)
        for place in range(tile.rows):
            head, token = rows.at(index(place))
            mean = state.mean(place)
            store_channels(
                mean, shape.value_channels, tile.threads, out, [row, token, head], index(0)
            )

    launch = Launch("gpu_attention", tile.threads, integers)
    return Kernel(f"gpu_attention_{shape.text}_{heads.text}", grid, build, launch)


class _Rows:
    """A tile of the rows of key head `head` of sequence `row`; `number` is which of them.

    Row r of all is head r modulo `sharing` of token r / `sharing`; the first is in column `past`.
    """

    def __init__(
        self,
        shape: AttentionShape,
        tile: RowTile,
        row: ir.Value,
        head: ir.Value,
        number: ir.Value,
        past: ir.Value,
    ) -> None:
        self.shape, self.tile = shape, tile
        self.row, self.head, self.number = row, head, number
        tokens = [self.at(index(place))[1] for place in range(tile.rows)]
        self._columns = [arith.addi(past, token) for token in tokens]

    def at(self, place: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The query head and the token of a row of the tile."""
        sharing = index(self.shape.sharing)
        found = arith.addi(arith.muli(self.number, index(self.tile.rows)), place)
        token, turn = div_rem(found, sharing)
        return arith.addi(arith.muli(self.head, sharing), turn), token

    def load(
        self,
        query: ir.Value,
        heads: RawHeads,
        factors: list[ir.Value],
        buffer: ir.Value,
        layer: ir.Value,
    ) -> None:
        """Fills `buffer`, of a `WorkgroupSoftmax`, with the rows."""
        by = factor(self.shape.scale, self.shape.softcap)
        for place in scf.for_(index(0), index(self.tile.rows), index(1)):

            def write(x: ir.Value, at: ir.Value, place: ir.Value = place) -> None:
                store_lanes(arith.mulf(x, splat(by, x.type)), buffer, [place, at])

            head, token = self.at(place)
            heads.make(query, factors, layer, (self.row, head, token), self.tile.threads, write)
            scf.yield_([])

    def columns(self, start: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The first that any row sees, in a sequence that begins at `start`, to behind the last."""
        first, last = self._columns[0], self._columns[-1]
        if self.shape.window:
            start = arith.maxsi(start, arith.subi(first, index(self.shape.window - 1)))
        return start, arith.addi(last, index(1))

    def sees(self, place: int, column: ir.Value) -> ir.Value:
        """Whether a row sees a column from `start` on."""
        own = self._columns[place]
        seen = arith.cmpi(arith.CmpIPredicate.sle, column, own)
        if not self.shape.window:
            return seen
        edge = arith.addi(column, index(self.shape.window))
        return arith.andi(seen, arith.cmpi(arith.CmpIPredicate.sgt, edge, own))
