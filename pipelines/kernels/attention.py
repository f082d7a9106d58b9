"""The kernel of attention for many query rows: an online softmax over blocks of cached columns.

Lanes are query rows: a vector holds one number for each of them, so that maxima, sums and masks
never cross lanes, and keys and values are read element by element where they lie in the cache,
whatever their number of channels. The rows of the heads that share a key head are rows together.
Milakov and Gimelshein, 2018 (online softmax); Dao et al., 2022 (blocks).
"""

import re
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith, math, memref, scf, vector

from llmc.dialects.attention import HIDDEN
from llmc.dialects.index_notation import Size, index
from llmc.pipelines.kernels.kernel import Kernel, load_index, multiply_add

# Columns of a block, and of those the ones whose scores stay in registers together.
_BLOCK = 32
_UNROLL = 8
# IREE refuses code that takes more stack than 32 KiB.
_STACK_BYTES = 30_000


@dataclass(frozen=True)
class AttentionShape:
    """What is fixed when compiling. `query [B, H, T, D]` has T open; caches hold G key heads."""

    batch: int
    heads: int
    key_heads: int
    channels: int
    value_channels: int
    scale: float
    window: int
    softcap: float

    @property
    def sharing(self) -> int:
        """Query heads for each key head."""
        return self.heads // self.key_heads

    def lanes(self, widest: int) -> int:
        """Query rows of a workgroup: a vector's, or fewer where their buffers exceed the stack."""
        while 4 * widest * (self.channels + self.value_channels + _BLOCK) > _STACK_BYTES:
            widest //= 2
        return widest


def attention(shape: AttentionShape, widest: int) -> Kernel:
    """Operands `query`, `keys [L, S, G, C, D]`, `values [L, S, G, C, E]`, `start [B]`.

    Query and result `[B, H, T, E]` are float32, the caches of that or a narrower type. The scalars
    are the layer, the first sequence and the columns held before the query's (see `llmc.attention`
    for what a row sees). `widest` is the number of floats in a vector register.
    """
    lanes = shape.lanes(widest)

    def grid(extents: list[ir.Value]) -> tuple[Size, Size]:
        rows = arith.muli(extents[0], index(shape.sharing))
        return arith.ceildivui(rows, index(lanes)), shape.batch * shape.key_heads

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
        layer, sequence, past = extents[-3:]
        batch = arith.divui(group, index(shape.key_heads))
        head = arith.remui(group, index(shape.key_heads))
        where = [layer, arith.addi(sequence, batch), head]
        rows = _Rows(shape, lanes, tile, extents[0], batch, head, past)
        _Tile(shape, lanes, rows, keys, values, where).run(query, load_index(start, batch), out)

    constants = f"{shape.scale!r}_{shape.window}_{shape.softcap!r}"
    return Kernel(f"attention_{re.sub(r'[^0-9a-z_]', 'p', constants)}", grid, build)


class _Rows:
    """The query rows of one workgroup: row r is token r / sharing of head r mod sharing.

    The last workgroup is filled up with the last row: it is computed and written again.
    """

    def __init__(
        self,
        shape: AttentionShape,
        lanes: int,
        tile: ir.Value,
        tokens: ir.Value,
        batch: ir.Value,
        key_head: ir.Value,
        past: ir.Value,
    ) -> None:
        sharing = index(shape.sharing)
        last = arith.subi(arith.muli(tokens, sharing), index(1))
        first = arith.muli(tile, index(lanes))
        self.places = []
        columns = []
        for lane in range(lanes):
            row = arith.minui(arith.addi(first, index(lane)), last)
            token = arith.divui(row, sharing)
            head = arith.addi(arith.muli(key_head, sharing), arith.remui(row, sharing))
            self.places.append([batch, head, token])
            columns.append(arith.addi(past, token))
        self.first_column, self.last_column = columns[0], columns[-1]
        i32 = ir.IntegerType.get_signless(32)
        self.columns = vector.from_elements(
            ir.VectorType.get([lanes], i32), [arith.index_cast(i32, c) for c in columns]
        )


class _Tile:
    """The computation of one workgroup. Buffers are `[n, lanes]`: transposed queries, a block's
    scores, and the transposed sums of values."""

    def __init__(
        self,
        shape: AttentionShape,
        lanes: int,
        rows: _Rows,
        keys: ir.Value,
        values: ir.Value,
        where: list[ir.Value],
    ) -> None:
        f32 = ir.F32Type.get()
        self.shape, self.lanes, self.rows = shape, lanes, rows
        self.keys, self.values, self.where = keys, values, where
        self.type = ir.VectorType.get([lanes], f32)
        buffer = lambda count: memref.alloca(ir.MemRefType.get([count, lanes], f32), [], [])  # noqa: E731
        self.query = buffer(shape.channels)
        self.scores = buffer(_BLOCK)
        self.sums = buffer(shape.value_channels)

    def run(self, query: ir.Value, start: ir.Value, out: ir.Value) -> None:
        """Loads the queries, walks over the columns they see, and stores the result."""
        self._load_query(query)
        zero = self._splat(0.0)
        for e in scf.for_(index(0), index(self.shape.value_channels)):
            vector.store(zero, self.sums, [e, index(0)])
            scf.yield_([])
        end = arith.addi(self.rows.last_column, index(1))
        if self.shape.window:
            reach = arith.subi(self.rows.first_column, index(self.shape.window - 1))
            start = arith.maxsi(start, reach)
        loop = scf.ForOp(start, end, index(_BLOCK), [self._splat(HIDDEN), zero])
        with ir.InsertionPoint(loop.body):
            peak, total = loop.inner_iter_args
            scf.yield_(self._block(loop.induction_variable, end, peak, total))
        self._store(loop.results[1], out)

    def _load_query(self, query: ir.Value) -> None:
        scale = arith.ConstantOp(ir.F32Type.get(), self.shape.scale).result
        for d in scf.for_(index(0), index(self.shape.channels)):
            for lane, place in enumerate(self.rows.places):
                scaled = arith.mulf(memref.load(query, [*place, d]), scale)
                memref.store(scaled, self.query, [d, index(lane)])
            scf.yield_([])

    def _block(
        self, column: ir.Value, end: ir.Value, peak: ir.Value, total: ir.Value
    ) -> list[ir.Value]:
        """Takes in the columns from `column` on: the new peaks and totals of all rows."""
        last = arith.subi(end, index(1))
        loop = scf.ForOp(index(0), index(_BLOCK), index(_UNROLL), [peak])
        with ir.InsertionPoint(loop.body):
            at, (highest,) = loop.induction_variable, loop.inner_iter_args
            offsets = [arith.addi(at, index(j)) for j in range(_UNROLL)]
            columns = [arith.addi(column, offset) for offset in offsets]
            for offset, c, score in zip(
                offsets, columns, self._dot_products(columns, last), strict=True
            ):
                score = self._mask(self._bend(score), c)
                vector.store(score, self.scores, [offset, index(0)])
                highest = arith.maximumf(highest, score)
            scf.yield_([highest])
        new_peak = loop.results[0]
        shrink = math.exp(arith.subf(peak, new_peak))
        loop = scf.ForOp(index(0), index(_BLOCK), index(1), [arith.mulf(total, shrink)])
        with ir.InsertionPoint(loop.body):
            place = [loop.induction_variable, index(0)]
            weight = math.exp(arith.subf(vector.load(self.type, self.scores, place), new_peak))
            vector.store(weight, self.scores, place)
            scf.yield_([arith.addf(loop.inner_iter_args[0], weight)])
        self._add_values(column, last, shrink)
        return [new_peak, loop.results[0]]

    def _dot_products(self, columns: list[ir.Value], last: ir.Value) -> list[ir.Value]:
        """The rows' products with the keys of `columns`; past the last one with the last one's."""
        places = [[*self.where, arith.minui(column, last)] for column in columns]
        loop = scf.ForOp(
            index(0), index(self.shape.channels), index(1), [self._splat(0.0)] * len(columns)
        )
        with ir.InsertionPoint(loop.body):
            d = loop.induction_variable
            query = vector.load(self.type, self.query, [d, index(0)])
            keys = [_load_wide(self.keys, [*place, d]) for place in places]
            scf.yield_(
                [
                    multiply_add(query, vector.broadcast(self.type, key), sum_)
                    for key, sum_ in zip(keys, loop.inner_iter_args, strict=True)
                ]
            )
        return list(loop.results)

    def _bend(self, score: ir.Value) -> ir.Value:
        if not self.shape.softcap:
            return score
        cap = self._splat(self.shape.softcap)
        return arith.mulf(math.tanh(arith.divf(score, cap)), cap)

    def _mask(self, score: ir.Value, column: ir.Value) -> ir.Value:
        i32 = ir.IntegerType.get_signless(32)
        lanes = ir.VectorType.get([self.lanes], i32)
        columns = vector.broadcast(lanes, arith.index_cast(i32, column))
        seen = arith.cmpi(arith.CmpIPredicate.sle, columns, self.rows.columns)
        if self.shape.window:
            width = arith.ConstantOp(i32, self.shape.window).result
            edge = arith.addi(columns, vector.broadcast(lanes, width))
            near = arith.cmpi(arith.CmpIPredicate.sgt, edge, self.rows.columns)
            seen = arith.andi(seen, near)
        return arith.select(seen, score, self._splat(HIDDEN))

    def _add_values(self, column: ir.Value, last: ir.Value, shrink: ir.Value) -> None:
        """Shrinks the sums to the new peaks and adds the block's values by their weights."""
        channels = self.shape.value_channels
        together = next(count for count in range(_UNROLL, 0, -1) if channels % count == 0)
        for e in scf.for_(index(0), index(channels), index(together)):
            places = [arith.addi(e, index(j)) for j in range(together)]
            before = [vector.load(self.type, self.sums, [place, index(0)]) for place in places]
            loop = scf.ForOp(
                index(0), index(_BLOCK), index(1), [arith.mulf(sum_, shrink) for sum_ in before]
            )
            with ir.InsertionPoint(loop.body):
                offset = loop.induction_variable
                row = arith.minui(arith.addi(column, offset), last)
                weight = vector.load(self.type, self.scores, [offset, index(0)])
                values = [_load_wide(self.values, [*self.where, row, place]) for place in places]
                scf.yield_(
                    [
                        multiply_add(weight, vector.broadcast(self.type, value), sum_)
                        for value, sum_ in zip(values, loop.inner_iter_args, strict=True)
                    ]
                )
            for place, sum_ in zip(places, loop.results, strict=True):
                vector.store(sum_, self.sums, [place, index(0)])
            scf.yield_([])

    def _store(self, total: ir.Value, out: ir.Value) -> None:
        # A row of padding may see no column at all: it becomes 0, not 0/0.
        total = arith.maximumf(total, self._splat(1e-30))
        for e in scf.for_(index(0), index(self.shape.value_channels)):
            mixed = arith.divf(vector.load(self.type, self.sums, [e, index(0)]), total)
            for lane, place in enumerate(self.rows.places):
                memref.store(vector.extract(mixed, [], [lane]), out, [*place, e])
            scf.yield_([])

    def _splat(self, value: float) -> ir.Value:
        element = ir.FloatAttr.get(ir.F32Type.get(), value)
        return arith.ConstantOp(
            self.type, ir.DenseElementsAttr.get_splat(self.type, element)
        ).result


def _load_wide(cache: ir.Value, where: list[ir.Value]) -> ir.Value:
    """An element of `cache` as float32."""
    value, f32 = memref.load(cache, where), ir.F32Type.get()
    return value if value.type == f32 else arith.extf(f32, value)
