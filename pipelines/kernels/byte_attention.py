"""The kernel of attention for many query rows over caches of cells: products of bytes in integers.

Rows are to a workgroup what the heads that share a key head are in decoding, so that a token is
read with others as it would be alone: its query and its weights are rounded alike.
"""

from torch_mlir import ir
from torch_mlir.dialects import arith, scf, vector

from llmc.dialects.index_notation import Size, constant, index
from llmc.pipelines.kernels.attention import AttentionShape
from llmc.pipelines.kernels.byte_softmax import ByteSoftmax
from llmc.pipelines.kernels.kernel import STACK_BYTES, Kernel, load_index
from llmc.pipelines.kernels.online_softmax import HEADS, Caches, buffer
from llmc.pipelines.kernels.query_rows import QueryRows
from llmc.pipelines.kernels.vectors import LOG2_E, floats, load, splat, width_of

# Rows of a workgroup at most: more would leave cores without any.
_ROWS = 24
# What weights that are not hidden add up to, at least.
_LEAST = 1e-30


def byte_attention(shape: AttentionShape, widest: int, instruction: str) -> Kernel:
    """Operands and results as those of `attention`, the caches being the bytes of cells.

    `widest` is the number of floats in a vector register, and `instruction` the one that multiplies
    bytes.
    """
    count = _rows(shape, widest)

    def grid(extents: list[ir.Value]) -> tuple[Size, Size]:
        rows = arith.muli(extents[0], index(shape.sharing))
        return arith.ceildivui(rows, index(count)), shape.batch * shape.key_heads

    def build(
        tile: ir.Value,
        group: ir.Value,
        extents: list[ir.Value],
        query: ir.Value,
        keys: ir.Value,
        values: ir.Value,
        start: ir.Value,
        out: ir.Value,
    ) -> None:
        tokens, *_, layer, sequence, past = extents
        batch, head = (op(group, index(shape.key_heads)) for op in (arith.divui, arith.remui))
        rows = QueryRows(shape.sharing, count, tile, tokens, batch, head, past)
        caches = Caches(keys, values, [layer, arith.addi(sequence, batch), head])
        softmax = _RowSoftmax(shape, rows, caches, widest, instruction)
        softmax.load_query(query)
        softmax.reset()
        begin = load_index(start, batch)
        if shape.window:
            reach = arith.subi(rows.first_column, index(shape.window - 1))
            begin = arith.maxsi(begin, reach)
        softmax.attend(begin, arith.addi(rows.last_column, index(1)))
        softmax.store(out)

    return Kernel(f"byte_attention_{shape.text}", grid, build)


def _rows(shape: AttentionShape, widest: int) -> int:
    """The rows of a workgroup: as many as the stack bears, and as are multiplied together."""
    each = ByteSoftmax.bytes(1, shape.channels, shape.value_channels, widest)
    most = min(_ROWS, STACK_BYTES // each)
    return max(most // HEADS * HEADS, 1)


class _RowSoftmax(ByteSoftmax):
    """`ByteSoftmax` of rows, each of which sees the columns up to its own: `own [rows]`."""

    def __init__(
        self,
        shape: AttentionShape,
        rows: QueryRows,
        caches: Caches,
        widest: int,
        instruction: str,
    ) -> None:
        super().__init__(len(rows.places), caches, widest, shape.softcap, instruction)
        self._shape, self._rows, self._widest = shape, rows, widest
        self._own = buffer(self.heads, element=rows.columns.type.element_type)
        vector.store(rows.columns, self._own, [index(0)])

    def seen(
        self, head: ir.Value, column: ir.Value, at: ir.Value, limit: ir.Value | None
    ) -> ir.Value:
        """The columns that are asked for, up to the row's own and within its window."""
        place = arith.addi(column, at)
        behind = arith.addi(load_index(self._own, head), index(1))
        left = arith.subi(behind, place)
        seen = self.lanes_below(left)
        if self._shape.window:
            before = self.lanes_below(arith.subi(left, index(self._shape.window)))
            seen = arith.xori(seen, before)
        return arith.andi(seen, self._asked_for(place))

    def load_query(self, query: ir.Value) -> None:
        """Takes rows of `query [B, H, T, D]`, scaled for exponentials of base 2."""
        channels = self.caches.channels
        lanes = width_of(self._widest, channels)
        scale = splat(self._shape.scale * LOG2_E, lanes)
        for row, place in enumerate(self._rows.places):
            for d in scf.for_(index(0), index(channels), index(lanes)):
                scaled = arith.mulf(load(query, [*place, d], lanes), scale)
                vector.store(scaled, self.query, [index(row), d])
                scf.yield_([])

    def store(self, out: ir.Value) -> None:
        """Writes rows of `out [B, T, H, E]`."""
        channels = self.caches.value_channels
        lanes = width_of(self._widest, channels)
        for row, place in enumerate(self._rows.outputs):
            # Rows that see no column become 0, not 0/0.
            total = arith.maximumf(self.total(index(row)), constant(_LEAST, ir.F32Type.get()))
            factor = vector.broadcast(floats(lanes), arith.divf(constant(1.0, total.type), total))
            for e in scf.for_(index(0), index(channels), index(lanes)):
                vector.store(
                    arith.mulf(load(self.sums, [index(row), e], lanes), factor), out, [*place, e]
                )
                scf.yield_([])
