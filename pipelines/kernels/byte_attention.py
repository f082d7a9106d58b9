"""The kernel of attention for many query rows over caches of cells: products of bytes in integers.

Rows are to a workgroup what the heads that share a key head are in decoding, so that a token is
read with others as it would be alone: its query and its weights are rounded alike. It is made of
what decoding is made of, which no transform operation can build (`online_softmax`).
"""

from dataclasses import astuple

from torch_mlir import ir
from torch_mlir.dialects import arith, memref, scf, vector
from torch_mlir.extras import types as T

from llmc.dialects.cache_cells import room_of
from llmc.dialects.index_notation import constant, index
from llmc.pipelines.kernels.attention import AttentionShape
from llmc.pipelines.kernels.attention_cuts import ByteAttentionCut
from llmc.pipelines.kernels.byte_softmax import ByteSoftmax
from llmc.pipelines.kernels.kernel import STACK_BYTES, Kernel, in_symbol, load_index
from llmc.pipelines.kernels.online_softmax import BLOCK, LEAST, Caches, buffer, logarithm
from llmc.pipelines.kernels.query_rows import QueryRows
from llmc.pipelines.kernels.splat import splat
from llmc.pipelines.kernels.vectors import LOG2_E, clear_behind, floats, load, width_of


def byte_attention(
    shape: AttentionShape, widest: int, instruction: str, cut: ByteAttentionCut
) -> Kernel:
    """Operands and results as those of `attention`, the caches being the bytes of cells.

    `widest` is the number of floats in a vector register, and `instruction` the one that multiplies
    bytes.
    """
    cut = _as_the_stack_bears(shape, widest, cut)

    def build(
        tile: ir.Value,
        group: ir.Value,
        extents: list[ir.Value],
        query: ir.Value,
        keys: ir.Value,
        values: ir.Value,
        starts: ir.Value,
        out: ir.Value,
    ) -> None:
        rows, head = shape.rows(cut.rows, tile, group, extents)
        softmax = _RowSoftmax(
            shape, rows, Caches(keys, values, head), widest, instruction, cut.together
        )
        softmax.load_query(query)
        softmax.reset()
        columns = shape.columns(rows, starts, BLOCK)
        softmax.ask(*columns)
        softmax.attend(*columns)
        softmax.store(out)

    name = f"byte_attention_{in_symbol(*astuple(cut))}_{shape.text}"
    return Kernel(name, lambda each: shape.grid(each, cut.rows), build)


def _as_the_stack_bears(
    shape: AttentionShape, widest: int, cut: ByteAttentionCut
) -> ByteAttentionCut:
    """No more rows than `cut` says, some times as many as are multiplied at once."""
    each = ByteSoftmax.bytes(1, room_of(shape.channels), room_of(shape.value_channels), widest)
    most = max(min(cut.rows, STACK_BYTES // each), 1)
    together = min(cut.together, most)
    return ByteAttentionCut(most // together * together, together)


class _RowSoftmax(ByteSoftmax):
    """`ByteSoftmax` of rows, each of which sees columns from `begins` to before `ends [rows]`."""

    def __init__(
        self,
        shape: AttentionShape,
        rows: QueryRows,
        caches: Caches,
        widest: int,
        instruction: str,
        together: int,
    ) -> None:
        super().__init__(len(rows.places), caches, widest, shape.softcap, together, instruction)
        self._shape, self._rows, self._widest = shape, rows, widest
        i32 = rows.columns.type.element_type
        self._begins, self._ends = (buffer(self.heads, element=i32) for _ in range(2))
        for row in range(self.heads):
            self._bound(row, vector.extract(rows.columns, [], [row]))

    def _bound(self, row: int, own: ir.Value) -> None:
        """Stores which columns `row` sees, whose own is number `own` of all."""
        window, part, i32 = self._shape.window, self._shape.part, own.type
        end = arith.addi(arith.index_cast(T.index(), own), index(1))
        begin = arith.maxsi(arith.subi(end, index(window)), index(0)) if window else index(0)
        for column, bounds in ((begin, self._begins), (end, self._ends)):
            held = part.held(column) if part else column
            memref.store(arith.index_cast(i32, held), bounds, [index(row)])

    def seen(
        self, head: ir.Value, column: ir.Value, at: ir.Value, limit: ir.Value | None
    ) -> ir.Value:
        """The columns that are asked for, and that the row sees."""
        place = arith.addi(column, at)
        seen = self._lanes_before(self._ends, head, place)
        if self._shape.window:
            seen = arith.xori(seen, self._lanes_before(self._begins, head, place))
        return arith.andi(seen, self.asked_for(place))

    def _lanes_before(self, bounds: ir.Value, row: ir.Value, place: ir.Value) -> ir.Value:
        """Which lanes, the first being column `place`, are before the bound of `row`."""
        return self.lanes_below(arith.subi(load_index(bounds, row), place))

    def load_query(self, query: ir.Value) -> None:
        """Takes rows of `query [B, H, T, D]`, scaled for exponentials of base 2."""
        channels = self._shape.channels
        lanes = width_of(self._widest, channels)
        scale = splat(self._shape.scale * LOG2_E, floats(lanes))
        for row, place in enumerate(self._rows.places):
            for d in scf.for_(index(0), index(channels), index(lanes)):
                scaled = arith.mulf(load(query, [*place, d], lanes), scale)
                vector.store(scaled, self.query, [index(row), d])
                scf.yield_([])
            clear_behind(self.query, [index(row)], channels)

    def store(self, out: ir.Value) -> None:
        """Writes rows of `out [B, T, H, E]`; of a part of the columns, the logarithms, too."""
        channels, f32 = self._shape.value_channels, T.f32()
        lanes = width_of(self._widest, channels)
        for row, place in enumerate(self._rows.outputs):
            # Rows that see no column become 0, not 0/0.
            total = arith.maximumf(self.total(index(row)), constant(LEAST, f32))
            factor = vector.broadcast(floats(lanes), arith.divf(constant(1.0, f32), total))
            for e in scf.for_(index(0), index(channels), index(lanes)):
                sums = load(self.sums, [index(row), e], lanes)
                vector.store(arith.mulf(sums, factor), out, [*place, e])
                scf.yield_([])
            if self._shape.part:
                sum_ = logarithm(self.peak(index(row)), total)
                memref.store(sum_, out, [*place, index(channels)])
