"""Attention of one row of some query heads over a run of cached columns: an online softmax.

The heads share a key head, so that its keys and values are read once for all of them. Lanes are
channels where keys and values are read, columns where scores are weighed. The transform dialect has
no operation that carries maxima and sums from block to block, so this is built of vector
operations directly. Milakov and Gimelshein, 2018 (online softmax); Dao et al., 2022 (blocks).
"""

from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith, math, memref, scf, vector

from llmc.dialects.attention import HIDDEN
from llmc.dialects.index_notation import constant, index
from llmc.pipelines.kernels.kernel import multiply_add
from llmc.pipelines.kernels.vectors import (
    LOG2_E,
    divisor,
    exp2_of_negative,
    floats,
    highest,
    join_quads,
    load,
    maximum,
    quad,
    splat,
    total,
    width_of,
)

# Columns of a block: its scores wait in a buffer until its highest is known.
BLOCK = 128
# Columns of a block whose scores become one vector, at least and at most.
_GROUP = (4, 16)
# Columns whose scores are summed together, as `quad` wants them.
_COLUMNS = 4
# What stays in registers: up to 3 heads' products with 4 columns, or 4 vectors of their sums.
_HEADS = 3
_SUMS = 4


@dataclass(frozen=True)
class Caches:
    """Buffers `[layers, sequences, heads, capacity, channels]`, and the head that is read."""

    keys: ir.Value
    values: ir.Value
    head: list[ir.Value]

    @property
    def channels(self) -> int:
        """Channels of a key."""
        return self.keys.type.shape[4]

    @property
    def value_channels(self) -> int:
        """Channels of a value."""
        return self.values.type.shape[4]


class OnlineSoftmax:
    """The state of `heads` rows: what each has seen so far.

    Buffers `query [heads, D]`, scaled, with `LOG2_E` too; `sums [heads, E]`, of values by their
    weights; `peaks [heads, lanes]`, the highest score in every lane; `totals [heads, lanes]`, of
    weights, to be added up.
    """

    def __init__(self, heads: int, caches: Caches, lanes: int, softcap: float) -> None:
        self.heads, self.caches, self.softcap = heads, caches, softcap
        self.lanes = group_of(lanes)
        self.query = _buffer(heads, caches.channels)
        self.sums = _buffer(heads, caches.value_channels)
        self.peaks, self.shrinks = (_buffer(heads, self.lanes) for _ in range(2))
        self.totals = _buffer(heads, self.lanes)
        self.scores = _buffer(heads, BLOCK)
        # In memory, or LLVM moves all that makes them to where they are joined, and spills.
        width = max(width_of(self.lanes, caches.channels), _COLUMNS)
        self.quads = _buffer(_HEADS, self.lanes // _COLUMNS, width)

    @staticmethod
    def bytes(heads: int, channels: int, value_channels: int, lanes: int) -> int:
        """What the buffers take."""
        return 4 * heads * (channels + value_channels + 3 * group_of(lanes) + BLOCK)

    def reset(self) -> None:
        """Forgets all columns."""
        for head in scf.for_(index(0), index(self.heads)):
            vector.store(splat(HIDDEN, self.lanes), self.peaks, [head, index(0)])
            vector.store(splat(0.0, self.lanes), self.totals, [head, index(0)])
            lanes = width_of(self.lanes, self.caches.value_channels)
            for e in scf.for_(index(0), index(self.caches.value_channels), index(lanes)):
                vector.store(splat(0.0, lanes), self.sums, [head, e])
                scf.yield_([])
            scf.yield_([])

    def attend(self, begin: ir.Value, end: ir.Value) -> None:
        """Takes in columns `begin` to `end - 1`, if there are any."""
        together = divisor(self.heads, _HEADS)
        for column in scf.for_(begin, end, index(BLOCK)):
            count = arith.minsi(arith.subi(end, column), index(BLOCK))
            for first in scf.for_(index(0), index(self.heads), index(together)):
                heads = [arith.addi(first, index(i)) for i in range(together)]
                peaks = self._score(heads, column, count)
                for head, peak in zip(heads, peaks, strict=True):
                    self._weigh(head, peak, count)
                scf.yield_([])
            self._add_values(column, count)
            scf.yield_([])

    def peak(self, head: ir.Value) -> ir.Value:
        """The highest score that `head` has seen."""
        return memref.load(self.peaks, [head, index(0)])

    def total(self, head: ir.Value) -> ir.Value:
        """The sum of the weights that `head` has given."""
        return total(vector.load(floats(self.lanes), self.totals, [head, index(0)]))

    def _score(self, heads: list[ir.Value], column: ir.Value, count: ir.Value) -> list[ir.Value]:
        """Stores a block's scores, and gives for each head a vector that has the highest.

        Whole groups of columns are read as they lie; of the rest, those past `count` are hidden.
        """
        lanes = index(self.lanes)
        whole = arith.muli(arith.divui(count, lanes), lanes)
        before = [load(self.peaks, [head, index(0)], self.lanes) for head in heads]
        for begin, end, limit in ((index(0), whole, None), (whole, count, count)):
            loop = scf.ForOp(begin, end, lanes, before)
            with ir.InsertionPoint(loop.body):
                at = loop.induction_variable
                scores = self._score_group(heads, column, at, limit)
                for head, score in zip(heads, scores, strict=True):
                    vector.store(score, self.scores, [head, at])
                scf.yield_(list(map(maximum, loop.inner_iter_args, scores)))
            before = list(loop.results)
        return before

    def _score_group(
        self, heads: list[ir.Value], column: ir.Value, at: ir.Value, limit: ir.Value | None
    ) -> list[ir.Value]:
        """A vector of scores for each head; columns that are not below `limit` are hidden."""
        for number in scf.for_(index(0), index(self.lanes // _COLUMNS), index(1)):
            start = arith.addi(at, arith.muli(number, index(_COLUMNS)))
            offsets = [arith.addi(start, index(j)) for j in range(_COLUMNS)]
            if limit is not None:
                last = arith.subi(limit, index(1))
                offsets = [arith.minui(offset, last) for offset in offsets]
            places = [arith.addi(column, offset) for offset in offsets]
            for place in places:
                self._prefetch(self.caches.values, place)
            for head, sums in enumerate(self._products(heads, places)):
                vector.store(quad(sums), self.quads, [index(head), number, index(0)])
            scf.yield_([])
        scores = []
        for head in range(len(heads)):
            _, count, lanes = self.quads.type.shape
            here = ([index(head), index(i), index(0)] for i in range(count))
            quads = [load(self.quads, place, lanes) for place in here]
            scores.append(self._bend(join_quads(quads)))
        if limit is None:
            return scores
        below, hidden = self._below(at, limit), splat(HIDDEN, self.lanes)
        return [arith.select(below, score, hidden) for score in scores]

    def _products(self, heads: list[ir.Value], columns: list[ir.Value]) -> list[list[ir.Value]]:
        """For each head and column a vector whose lanes add up to their product."""
        channels, (keys, where) = self.caches.channels, (self.caches.keys, self.caches.head)
        lanes = width_of(self.lanes, channels)
        zeros = [splat(0.0, lanes)] * (len(heads) * len(columns))
        loop = scf.ForOp(index(0), index(channels), index(lanes), zeros)
        with ir.InsertionPoint(loop.body):
            d, sums = loop.induction_variable, iter(loop.inner_iter_args)
            read = [load(keys, [*where, column, d], lanes) for column in columns]
            queries = [load(self.query, [head, d], lanes) for head in heads]
            scf.yield_([multiply_add(q, key, next(sums)) for q in queries for key in read])
        results = list(loop.results)
        return [results[i : i + len(columns)] for i in range(0, len(results), len(columns))]

    def _prefetch(self, cache: ir.Value, column: ir.Value) -> None:
        """Asks memory for a column that is soon read, for caches are read but once for a token."""
        *_, channels = cache.type.shape
        line = 512 // cache.type.element_type.width
        for d in range(0, channels, line):
            where = [*self.caches.head, column, index(d)]
            memref.prefetch(cache, where, False, 3, True)

    def _weigh(self, head: ir.Value, peak: ir.Value, count: ir.Value) -> None:
        """Makes weights of a block's scores, and shrinks what was before to the new peak."""
        here = [head, index(0)]
        peak = highest(peak)
        shrink = exp2_of_negative(arith.subf(load(self.peaks, here, self.lanes), peak))
        vector.store(peak, self.peaks, here)
        vector.store(shrink, self.shrinks, here)
        sum_ = arith.mulf(load(self.totals, here, self.lanes), shrink)
        loop = scf.ForOp(index(0), count, index(self.lanes), [sum_])
        with ir.InsertionPoint(loop.body):
            place = [head, loop.induction_variable]
            score = load(self.scores, place, self.lanes)
            weight = exp2_of_negative(arith.subf(score, peak))
            vector.store(weight, self.scores, place)
            scf.yield_([arith.addf(loop.inner_iter_args[0], weight)])
        vector.store(loop.results[0], self.totals, here)

    def _bend(self, score: ir.Value) -> ir.Value:
        if not self.softcap:
            return score
        cap = splat(self.softcap * LOG2_E, self.lanes)
        return arith.mulf(math.tanh(arith.divf(score, cap)), cap)

    def _below(self, at: ir.Value, count: ir.Value) -> ir.Value:
        """Which of the lanes from `at` on are among the first `count`."""
        i32 = ir.IntegerType.get_signless(32)
        type_ = ir.VectorType.get([self.lanes], i32)
        lanes = vector.from_elements(type_, [constant(lane, i32) for lane in range(self.lanes)])
        left = arith.index_cast(i32, arith.subi(count, at))
        return arith.cmpi(arith.CmpIPredicate.slt, lanes, vector.broadcast(type_, left))

    def _add_values(self, column: ir.Value, count: ir.Value) -> None:
        """Adds the values of a block by their weights."""
        channels = self.caches.value_channels
        lanes = width_of(self.lanes, channels)
        wide = divisor(channels // lanes, _SUMS)
        together = divisor(self.heads, _HEADS)
        for first in scf.for_(index(0), index(self.heads), index(together)):
            heads = [arith.addi(first, index(i)) for i in range(together)]
            for e in scf.for_(index(0), index(channels), index(wide * lanes)):
                places = [arith.addi(e, index(i * lanes)) for i in range(wide)]
                self._add_values_of(heads, places, lanes, column, count)
                scf.yield_([])
            scf.yield_([])

    def _add_values_of(
        self,
        heads: list[ir.Value],
        places: list[ir.Value],
        lanes: int,
        column: ir.Value,
        count: ir.Value,
    ) -> None:
        type_ = floats(lanes)
        before = []
        for head in heads:
            shrink = vector.broadcast(type_, memref.load(self.shrinks, [head, index(0)]))
            sums = (vector.load(type_, self.sums, [head, place]) for place in places)
            before += [arith.mulf(sum_, shrink) for sum_ in sums]
        loop = scf.ForOp(index(0), count, index(1), before)
        with ir.InsertionPoint(loop.body):
            offset, sums = loop.induction_variable, iter(loop.inner_iter_args)
            where = [*self.caches.head, arith.addi(column, offset)]
            self._prefetch(self.caches.keys, arith.addi(where[-1], index(BLOCK)))
            values = [load(self.caches.values, [*where, place], lanes) for place in places]
            weights = [memref.load(self.scores, [head, offset]) for head in heads]
            scf.yield_(
                [
                    multiply_add(vector.broadcast(type_, weight), value, next(sums))
                    for weight in weights
                    for value in values
                ]
            )
        results = iter(loop.results)
        for head in heads:
            for place in places:
                vector.store(next(results), self.sums, [head, place])


def group_of(lanes: int) -> int:
    """How many columns' scores are a vector where a register has `lanes` floats."""
    least, most = _GROUP
    return min(max(lanes, least), most)


def _buffer(*shape: int) -> ir.Value:
    return memref.alloca(ir.MemRefType.get(shape, ir.F32Type.get()), [], [])
