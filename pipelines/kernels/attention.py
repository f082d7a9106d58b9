"""The kernel of attention for many query rows: an online softmax over blocks of cached columns.

Lanes are query rows: a vector holds one number for each of them, so that maxima, sums and masks
never cross lanes, and keys and values are read element by element, whatever their number of
channels; narrow ones are first widened, a block at a time. The rows of the heads that share a key
head are rows together. No transform operation carries maxima and sums from block to block, or goes
only as far as a row sees.

Milakov and Gimelshein, 2018 (online softmax); Dao et al., 2022 (blocks).
"""

from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith, memref, scf, vector
from torch_mlir.extras import types as T

from llmc.dialects import AttentionOp, AttentionPartOp, CachedAttentionOp
from llmc.dialects.attention import HIDDEN
from llmc.dialects.dealt_columns import DealtColumns
from llmc.dialects.divisor import divisor
from llmc.dialects.index_notation import Size, index
from llmc.pipelines.kernels.attention_cuts import AttentionCut
from llmc.pipelines.kernels.kernel import (
    STACK_BYTES,
    Kernel,
    div_rem,
    in_symbol,
    load_index,
    multiply_add,
)
from llmc.pipelines.kernels.online_softmax import LEAST, bend, buffer, logarithm
from llmc.pipelines.kernels.query_rows import QueryRows
from llmc.pipelines.kernels.splat import splat
from llmc.pipelines.kernels.vectors import (
    LOG2_E,
    exp2_of_negative,
    floats,
    load,
    maximum,
    transpose,
    width_of,
)
from llmc.pipelines.kernels.widened_columns import Read, WidenedColumns

# Columns of a group, whose scores stay in registers together.
_UNROLL = 8


@dataclass(frozen=True)
class AttentionShape:
    """What is fixed when compiling beside the number of tokens; caches hold `key_heads` heads.

    Where the `batch` is 1, its rows are those of any number of sequences, which follow each other.
    To a `part` of all columns any number attends as well, and a row ends with the logarithm of the
    sum of its scores' exponentials.
    """

    batch: int
    heads: int
    key_heads: int
    channels: int
    value_channels: int
    scale: float
    window: int
    softcap: float
    part: DealtColumns | None = None

    @classmethod
    def of_part(cls, op: AttentionPartOp) -> "AttentionShape":
        """What `op` says, of any number of sequences."""
        _, heads, _, channels = op.query.type.shape
        return cls(
            ir.ShapedType.get_dynamic_size(),
            heads,
            op.keys.type.shape[2],
            channels,
            op.out.type.shape[3] - 1,
            op.scale.value,
            op.window.value,
            op.softcap.value,
            DealtColumns.of(op),
        )

    @classmethod
    def of(
        cls, op: AttentionOp | CachedAttentionOp, query: ir.Value, key_heads: int
    ) -> "AttentionShape":
        """What `op` says, with the rows of its `query`, perhaps of several sequences as of one."""
        batch, heads, _, channels = query.type.shape
        return cls(
            batch,
            heads,
            key_heads,
            channels,
            op.out.type.shape[3],
            op.scale.value,
            op.window.value,
            op.softcap.value,
        )

    @property
    def sharing(self) -> int:
        """Query heads for each key head."""
        return self.heads // self.key_heads

    @property
    def text(self) -> str:
        """What the types of a kernel's operands do not say, as part of a symbol."""
        columns = (self.part.first, self.part.step) if self.part else ()
        return in_symbol(self.scale, self.window, self.softcap, *columns)

    @property
    def joined(self) -> bool:
        """Whether sequences follow each other as the rows of one."""
        return self.batch == 1 and self.part is None

    def sequences(self, extents: list[ir.Value]) -> ir.Value:
        """How many there are, by the extents and scalars that a kernel is told."""
        if self.part:
            return extents[0]
        return extents[-5] if self.joined else index(self.batch)

    def tokens(self, extents: list[ir.Value]) -> ir.Value:
        """The number of tokens of each sequence, by the same."""
        if self.joined:
            return arith.divui(extents[0], self.sequences(extents))
        return extents[1 if self.part else 0]

    def grid(self, extents: list[ir.Value], rows: int) -> tuple[Size, Size]:
        """Workgroups of so many `rows` each, and the key heads of all sequences."""
        tiles = arith.ceildivui(arith.muli(self.tokens(extents), index(self.sharing)), index(rows))
        return tiles, arith.muli(self.sequences(extents), index(self.key_heads))

    def rows(
        self, count: int, tile: ir.Value, group: ir.Value, extents: list[ir.Value]
    ) -> tuple[QueryRows, list[ir.Value]]:
        """The `count` rows of workgroup `(tile, group)`, and where caches have their key head."""
        layer, sequence, past = extents[-3:]
        batch, head = div_rem(group, self.key_heads)
        tokens = self.tokens(extents)
        rows = QueryRows(self.sharing, count, tile, tokens, batch, head, past, self.joined)
        return rows, [layer, arith.addi(sequence, batch), head]

    def columns(self, rows: QueryRows, starts: ir.Value, block: int) -> tuple[ir.Value, ir.Value]:
        """What of the caches `rows` see, from the first column to behind the last.

        `starts [B]` are the first columns of sequences. Whole blocks of `block` columns are left
        out of them, so that a row sums as it does in any other workgroup.
        """
        held = self.part.held if self.part else lambda column: column
        start, end = load_index(starts, rows.batch), arith.addi(rows.last_column, index(1))
        begin = held(start)
        if self.window:
            first = arith.maxsi(arith.subi(rows.first_column, index(self.window - 1)), start)
            blocks = arith.divui(arith.subi(held(first), begin), index(block))
            begin = arith.addi(begin, arith.muli(blocks, index(block)))
        return begin, held(end)

    def tile(self, widest: int, widened: bool, cut: AttentionCut) -> tuple[int, int]:
        """Query rows of a workgroup and columns of a block: as many as the stack bears."""
        room = max(self.channels, self.value_channels) if widened else 0
        rows = cut.vectors * widest
        while rows > 1:
            groups = cut.groups
            while groups:
                block = groups * _UNROLL
                wide = rows * (self.channels + self.value_channels + block) + block * room
                if 4 * wide <= STACK_BYTES:
                    return rows, block
                groups //= 2
            rows //= 2
        return 1, _UNROLL


def attention(shape: AttentionShape, widest: int, widened: bool, cut: AttentionCut) -> Kernel:
    """Operands `query`, `keys [L, S, G, C, D]`, `values [L, S, G, C, E]`, `starts [B]`.

    The query `[B, H, T, D]` and the result `[B, T, H, E]`, of a part `[B, T, H, E + 1]`, are
    float32, the caches of that or a narrower type. The scalars are the layer, the first sequence
    and the columns held before the query's (see `llmc.attention` for what a row sees). `widest` is
    the number of floats in a vector register; `widened` says that a cache's type is a narrower one.
    Where B is 1 in query and result, these are `[1, H, B * T, D]` and `[1, B * T, H, E]` for the B
    of `starts`, which is open then. Before the tokens' number the kernel of a part is told that of
    the sequences.
    """
    lanes, block = shape.tile(widest, widened, cut)

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
        rows, where = shape.rows(lanes, tile, group, extents)
        _Tile(shape, lanes, block, rows, keys, values, where).run(query, starts, out)

    name = f"attention_{in_symbol(lanes, block)}_{shape.text}"
    return Kernel(name, lambda each: shape.grid(each, lanes), build)


class _Tile:
    """The computation of one workgroup. Buffers are `[n, lanes]`: transposed queries, a block's
    scores, and the transposed sums of values; and a block of keys or values, where widened."""

    def __init__(
        self,
        shape: AttentionShape,
        lanes: int,
        block: int,
        rows: QueryRows,
        keys: ir.Value,
        values: ir.Value,
        where: list[ir.Value],
    ) -> None:
        self.shape, self.lanes, self.block, self.rows = shape, lanes, block, rows
        self.keys, self.values, self.where = keys, values, where
        self.type = floats(lanes)
        self.query = buffer(shape.channels, lanes)
        self.scores = buffer(block, lanes)
        self.sums = buffer(shape.value_channels, lanes)
        self.widened = None
        if any(cache.type.element_type != T.f32() for cache in (keys, values)):
            widest = max(shape.channels, shape.value_channels)
            self.widened = WidenedColumns(block, widest, where)

    def run(self, query: ir.Value, starts: ir.Value, out: ir.Value) -> None:
        """Loads the queries, walks over the columns they see, and stores the result."""
        self._load_query(query)
        zero = self._splat(0.0)
        for e in scf.for_(index(0), index(self.shape.value_channels)):
            vector.store(zero, self.sums, [e, index(0)])
            scf.yield_([])
        begin, end = self.shape.columns(self.rows, starts, self.block)
        loop = scf.ForOp(begin, end, index(self.block), [self._splat(HIDDEN), zero])
        with ir.InsertionPoint(loop.body):
            column, (peak, total) = loop.induction_variable, loop.inner_iter_args
            scf.yield_(self._block(column, end, peak, total))
        self._store(loop.results[1], out)
        if self.shape.part:
            peak, total = loop.results
            self._store_logarithm(peak, total, out)

    def _load_query(self, query: ir.Value) -> None:
        """Transposes the queries, and scales them for exponentials of base 2."""
        channels = self.shape.channels
        side = self._side(channels)
        scale = splat(self.shape.scale * LOG2_E, floats(side))
        for d in scf.for_(index(0), index(channels), index(side)):
            for first in range(0, self.lanes, side):
                places = self.rows.places[first : first + side]
                rows = [arith.mulf(load(query, [*place, d], side), scale) for place in places]
                for i, column in enumerate(transpose(rows)):
                    vector.store(column, self.query, [arith.addi(d, index(i)), index(first)])
            scf.yield_([])

    def _block(
        self, column: ir.Value, end: ir.Value, peak: ir.Value, total: ir.Value
    ) -> list[ir.Value]:
        """Takes in the columns from `column` on: new peaks and totals of all rows."""
        count = arith.minsi(arith.subi(end, column), index(self.block))
        keys = self._read(self.keys, column, count)
        loop = scf.ForOp(index(0), count, index(_UNROLL), [peak])
        with ir.InsertionPoint(loop.body):
            at, (highest,) = loop.induction_variable, loop.inner_iter_args
            offsets = [arith.addi(at, index(j)) for j in range(_UNROLL)]
            for offset, score in zip(
                offsets, self._dot_products(keys, offsets, count), strict=True
            ):
                score = self._mask(bend(score, self.shape.softcap), arith.addi(column, offset))
                vector.store(score, self.scores, [offset, index(0)])
                highest = maximum(highest, score)
            scf.yield_([highest])
        new_peak = loop.results[0]
        shrink = exp2_of_negative(arith.subf(peak, new_peak))
        loop = scf.ForOp(index(0), count, index(1), [arith.mulf(total, shrink)])
        with ir.InsertionPoint(loop.body):
            place = [loop.induction_variable, index(0)]
            score = vector.load(self.type, self.scores, place)
            weight = exp2_of_negative(arith.subf(score, new_peak))
            vector.store(weight, self.scores, place)
            scf.yield_([arith.addf(loop.inner_iter_args[0], weight)])
        values = self._read(self.values, column, count)
        self._add_values(values, count, shrink)
        return [new_peak, loop.results[0]]

    def _read(self, cache: ir.Value, column: ir.Value, count: ir.Value) -> Read:
        """How to read elements of `count` columns from `column` on, as float32."""
        if self.widened is None:
            return lambda offset, channel: memref.load(
                cache, [*self.where, arith.addi(column, offset), channel]
            )
        return self.widened.rows(cache, column, count)

    def _dot_products(self, keys: Read, offsets: list[ir.Value], count: ir.Value) -> list[ir.Value]:
        """The rows' products with a block's keys; past these with the last one."""
        last = arith.subi(count, index(1))
        offsets = [arith.minui(offset, last) for offset in offsets]
        loop = scf.ForOp(
            index(0), index(self.shape.channels), index(1), [self._splat(0.0)] * len(offsets)
        )
        with ir.InsertionPoint(loop.body):
            d = loop.induction_variable
            query = vector.load(self.type, self.query, [d, index(0)])
            scf.yield_(
                [
                    multiply_add(query, vector.broadcast(self.type, keys(offset, d)), sum_)
                    for offset, sum_ in zip(offsets, loop.inner_iter_args, strict=True)
                ]
            )
        return list(loop.results)

    def _mask(self, score: ir.Value, column: ir.Value) -> ir.Value:
        i32 = T.i32()
        lanes = ir.VectorType.get([self.lanes], i32)
        if self.shape.part:
            column = self.shape.part.place(column)
        columns = vector.broadcast(lanes, arith.index_cast(i32, column))
        seen = arith.cmpi(arith.CmpIPredicate.sle, columns, self.rows.columns)
        if self.shape.window:
            width = arith.ConstantOp(i32, self.shape.window).result
            edge = arith.addi(columns, vector.broadcast(lanes, width))
            near = arith.cmpi(arith.CmpIPredicate.sgt, edge, self.rows.columns)
            seen = arith.andi(seen, near)
        return arith.select(seen, score, self._splat(HIDDEN))

    def _add_values(self, values: Read, count: ir.Value, shrink: ir.Value) -> None:
        """Shrinks the sums to the new peaks and adds the block's values by their weights."""
        channels = self.shape.value_channels
        together = divisor(channels, _UNROLL)
        for e in scf.for_(index(0), index(channels), index(together)):
            places = [arith.addi(e, index(j)) for j in range(together)]
            before = [vector.load(self.type, self.sums, [place, index(0)]) for place in places]
            loop = scf.ForOp(index(0), count, index(1), [arith.mulf(x, shrink) for x in before])
            with ir.InsertionPoint(loop.body):
                offset = loop.induction_variable
                weight = vector.load(self.type, self.scores, [offset, index(0)])
                scf.yield_(
                    [
                        multiply_add(
                            weight, vector.broadcast(self.type, values(offset, place)), sum_
                        )
                        for place, sum_ in zip(places, loop.inner_iter_args, strict=True)
                    ]
                )
            for place, sum_ in zip(places, loop.results, strict=True):
                vector.store(sum_, self.sums, [place, index(0)])
            scf.yield_([])

    def _store(self, total: ir.Value, out: ir.Value) -> None:
        # A row of padding may see no column at all: what it becomes is undefined, but finite.
        factor = arith.divf(self._splat(1.0), maximum(total, self._splat(LEAST)))
        vector.store(factor, self.scores, [index(0), index(0)])
        channels = self.shape.value_channels
        side = self._side(channels)
        for e in scf.for_(index(0), index(channels), index(side)):
            for first in range(0, self.lanes, side):
                norm = load(self.scores, [index(0), index(first)], side)
                places = ([arith.addi(e, index(i)), index(first)] for i in range(side))
                mixed = [arith.mulf(load(self.sums, place, side), norm) for place in places]
                for row, place in zip(transpose(mixed), self.rows.outputs[first:], strict=False):
                    vector.store(row, out, [*place, e])
            scf.yield_([])

    def _store_logarithm(self, peak: ir.Value, total: ir.Value, out: ir.Value) -> None:
        """Behind each row that of the sum of its scores' exponentials."""
        logarithms = logarithm(peak, maximum(total, self._splat(LEAST)))
        for lane, place in enumerate(self.rows.outputs):
            one = vector.extract(logarithms, [], [lane])
            memref.store(one, out, [*place, index(self.shape.value_channels)])

    def _side(self, channels: int) -> int:
        """How many rows by as many channels are transposed at once: a power of two."""
        return width_of(self.lanes & -self.lanes, channels)

    def _splat(self, value: float) -> ir.Value:
        return splat(value, self.type)
