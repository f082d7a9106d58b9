"""Attention of some query rows over a run of cached columns, by the threads of a workgroup.

A thread has a column of each tile while scores are weighed, and channels of the values while these
are added up. The highest scores of a tile are found in parts; each thread follows the totals of all
rows by itself. Milakov and Gimelshein, 2018 (online softmax); Dao et al., 2022 (tiles).
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

from torch_mlir import ir
from torch_mlir.dialects import arith, math, memref, scf, vector
from torch_mlir.extras import types as T

from llmc.dialects.attention import HIDDEN
from llmc.dialects.divisor import divisor
from llmc.dialects.index_notation import constant, index
from llmc.pipelines.kernels.kernel import div_rem, multiply_add
from llmc.pipelines.kernels.online_softmax import LEAST, Caches
from llmc.pipelines.kernels.splat import splat
from llmc.pipelines.kernels.threads import (
    LANES,
    load_one,
    row_of,
    shared,
    spread,
    store_one,
    thread,
    wait,
)
from llmc.pipelines.kernels.vectors import (
    LOG2_E,
    floats,
    load,
    maximum,
    total,
    width_of,
)
from llmc.pipelines.targets.gpu_facts import GPUFacts

NOTHING = HIDDEN / 2
"""The peak of a row that has seen nothing, by which what is hidden weighs nothing."""

_SUBGROUP = 32
_MOST_THREADS = 128
_MOST_ROWS = 16

Seen = Callable[[int, ir.Value], ir.Value | None]
"""Whether a row sees a column; None where all do."""


@dataclass(frozen=True)
class State:
    """What rows have seen: the peak of each, its sum of weights, and those of a thread's channels.

    Scores are powers of 2.
    """

    peaks: list[ir.Value]
    totals: list[ir.Value]
    sums: list[list[ir.Value]]

    @property
    def values(self) -> list[ir.Value]:
        """All of it, as a loop carries it."""
        return [*self.peaks, *self.totals, *(sum_ for row in self.sums for sum_ in row)]

    def where(self, condition: ir.Value, other: "State") -> "State":
        """It where `condition` is true, and `other` where not."""
        pairs = zip(self.values, other.values, strict=True)
        return self.of([arith.select(condition, *pair) for pair in pairs])

    def mean(self, row: int) -> list[ir.Value]:
        """The sums of a row by its weights; 0 of one that has seen nothing."""
        total = arith.maximumf(self.totals[row], constant(LEAST, T.f32()))
        return [arith.divf(sum_, total) for sum_ in self.sums[row]]

    def of(self, values: list[ir.Value]) -> "State":
        """The state of the same rows and channels that has `values`."""
        rows, channels = len(self.peaks), len(self.sums[0])
        starts = range(2 * rows, len(values), channels)
        sums = [values[at : at + channels] for at in starts]
        return State(values[:rows], values[rows : 2 * rows], sums)


@dataclass(frozen=True)
class RowTile:
    """How many query rows a workgroup has, and how many threads for them."""

    rows: int
    threads: int

    @classmethod
    def choose(cls, rows: int, channels: int, value_channels: int, facts: GPUFacts) -> "RowTile":
        """A thread for each channel of values, and as many rows, a divisor of `rows`, as fit."""
        wanted = _SUBGROUP * ceil(value_channels / _SUBGROUP)
        threads = min(wanted, _MOST_THREADS, facts.workgroup_threads)
        most = (facts.shared_memory_bytes // 4 - channels) // (channels + 2 * threads + LANES)
        return cls(divisor(rows, max(1, min(most, _MOST_ROWS))), threads)


class WorkgroupSoftmax:
    """Attention of the rows of `tile` over `caches`.

    `query [rows, D]` is shared memory, to be filled with the rows times `factor(scale, softcap)`.
    """

    def __init__(self, tile: RowTile, caches: Caches, softcap: float) -> None:
        self.rows, self.threads = tile.rows, tile.threads
        self.caches, self.softcap = caches, softcap
        self.query = shared(self.rows, caches.channels)
        self._scores, self._weights = (shared(self.rows, self.threads) for _ in range(2))
        self._highs = shared(self.rows, LANES)

    def nothing(self) -> State:
        """What rows have seen at first."""
        f32 = T.f32()
        peak, zero = constant(NOTHING, f32), constant(0.0, f32)
        width = len(range(0, self.caches.value_channels, self.threads))
        return State([peak] * self.rows, [zero] * self.rows, [[zero] * width] * self.rows)

    def one(self, key: ir.Value, value: list[ir.Value]) -> State:
        """What rows have seen of one column alone: a buffer `key [D]`, and this thread's values."""
        peaks = self._products(lambda at, lanes: load(key, [at], lanes))
        return State(peaks, [constant(1.0, T.f32())] * self.rows, [value] * self.rows)

    def attend(self, state: State, begin: ir.Value, end: ir.Value, seen: Seen) -> State:
        """What rows have seen that see columns `begin` to `end - 1` too, as far as `seen` says."""
        channels = own_channels(self.caches.value_channels, self.threads)
        loop = scf.ForOp(begin, end, index(self.threads), state.values)
        with ir.InsertionPoint(loop.body):
            old = state.of(list(loop.inner_iter_args))
            scores = self._score(loop.induction_variable, end, seen)
            peaks = self._peaks(old.peaks)
            self._weigh(scores, peaks)
            count = arith.minui(arith.subi(end, loop.induction_variable), index(self.threads))
            new = self._add(old, peaks, channels, loop.induction_variable, count)
            scf.YieldOp(new.values)
        return state.of(list(loop.results))

    def _score(self, tile: ir.Value, end: ir.Value, seen: Seen) -> list[ir.Value]:
        """The scores of this thread's column of the tile, which all threads then see."""
        column = arith.addi(tile, thread())
        exists = arith.cmpi(arith.CmpIPredicate.ult, column, end)
        place = arith.minui(column, arith.subi(end, index(1)))
        keys, number = row_of(self.caches.keys, [*self.caches.head, place])
        scores = self._products(lambda at, lanes: load(keys, [number, at], lanes))
        hidden = constant(HIDDEN, T.f32())
        for row, score in enumerate(scores):
            sees = seen(row, column)
            counts = exists if sees is None else arith.andi(exists, sees)
            scores[row] = arith.select(counts, score, hidden)
            memref.store(scores[row], self._scores, [index(row), thread()])
        wait()
        return scores

    def _products(self, key: Callable[[ir.Value, int], ir.Value]) -> list[ir.Value]:
        """Each row times a key, of which `key(at, lanes)` are channels, bent by the soft cap."""
        width = self.caches.channels
        lanes = width_of(LANES, width)
        zeros = [splat(0.0, floats(lanes))] * self.rows
        loop = scf.ForOp(index(0), index(width), index(lanes), zeros)
        with ir.InsertionPoint(loop.body):
            at = loop.induction_variable
            numbers = key(at, lanes)
            scf.YieldOp(
                [
                    multiply_add(load(self.query, [index(row), at], lanes), numbers, sum_)
                    for row, sum_ in enumerate(loop.inner_iter_args)
                ]
            )
        return [self._bend(total(sum_)) for sum_ in loop.results]

    def _bend(self, score: ir.Value) -> ir.Value:
        if not self.softcap:
            return score
        return arith.mulf(math.tanh(score), constant(self.softcap * LOG2_E, score.type))

    def _peaks(self, old: list[ir.Value]) -> list[ir.Value]:
        """The highest scores so far, the tile's included."""
        for number in spread(self.threads)(0, self.rows * LANES, 1):
            row, part = div_rem(number, LANES)
            memref.store(self._highest(row, part), self._highs, [row, part])
            scf.yield_([])
        wait()
        f32, kind = T.f32(), vector.CombiningKind.MAXNUMF
        return [
            vector.reduction(f32, kind, load(self._highs, [index(row), index(0)], LANES), acc=peak)
            for row, peak in enumerate(old)
        ]

    def _highest(self, row: ir.Value, part: ir.Value) -> ir.Value:
        """Of a row's scores of the tile, which are cut into as many parts as a vector has lanes."""
        count = self.threads // LANES
        first = arith.muli(part, index(count))
        lowest = splat(HIDDEN, floats(LANES))
        loop = scf.ForOp(index(0), index(count), index(LANES), [lowest])
        with ir.InsertionPoint(loop.body):
            at = arith.addi(first, loop.induction_variable)
            scf.YieldOp([maximum(load(self._scores, [row, at], LANES), loop.inner_iter_args[0])])
        f32, kind = T.f32(), vector.CombiningKind.MAXNUMF
        return vector.reduction(f32, kind, loop.results[0])

    def _weigh(self, scores: list[ir.Value], peaks: list[ir.Value]) -> None:
        """Lets all threads see the weights of this thread's column."""
        for row, (score, peak) in enumerate(zip(scores, peaks, strict=True)):
            weight = math.exp2(arith.subf(score, peak))
            memref.store(weight, self._weights, [index(row), thread()])
        wait()

    def _add(
        self,
        old: State,
        peaks: list[ir.Value],
        channels: list[ir.Value],
        tile: ir.Value,
        count: ir.Value,
    ) -> State:
        """The state with the values of the tile's first `count` columns by their weights."""
        shrink = [
            math.exp2(arith.subf(before, now)) for before, now in zip(old.peaks, peaks, strict=True)
        ]
        totals = [arith.mulf(*each) for each in zip(old.totals, shrink, strict=True)]
        sums = [
            [arith.mulf(sum_, by) for sum_ in row] for row, by in zip(old.sums, shrink, strict=True)
        ]
        lanes = width_of(LANES, self.threads)
        last = arith.subi(arith.addi(tile, count), index(1))
        before = State(peaks, totals, sums)
        loop = scf.ForOp(index(0), count, index(lanes), [*before.values[self.rows :]])
        with ir.InsertionPoint(loop.body):
            at = loop.induction_variable
            state = before.of([*peaks, *loop.inner_iter_args])
            first = arith.addi(tile, at)
            columns = [arith.minui(arith.addi(first, index(n)), last) for n in range(lanes)]
            values = [
                [load_one(self.caches.values, *self.caches.head, column, e) for e in channels]
                for column in columns
            ]
            weights = [load(self._weights, [index(row), at], lanes) for row in range(self.rows)]
            scf.YieldOp(_added(state, weights, values).values[self.rows :])
        return before.of([*peaks, *loop.results])


def own_channels(count: int, threads: int) -> list[ir.Value]:
    """Which of `count` channels are this thread's; in the place of one beyond the last, that."""
    return [
        arith.minui(arith.addi(thread(), index(first)), index(count - 1))
        for first in range(0, count, threads)
    ]


def store_channels(
    values: list[ir.Value],
    count: int,
    threads: int,
    buffer: ir.Value,
    where: list[ir.Value],
    first: ir.Value,
) -> None:
    """Writes `own_channels` of the row of `buffer`, which may hold narrower numbers, at `where`."""
    for channel, value in zip(own_channels(count, threads), values, strict=True):
        store_one(value, buffer, [*where, arith.addi(first, channel)])


def factor(scale: float, softcap: float) -> float:
    """What queries are multiplied by for `WorkgroupSoftmax`."""
    return scale / softcap if softcap else scale * LOG2_E


def _added(state: State, weights: list[ir.Value], values: list[list[ir.Value]]) -> State:
    """The state and some columns: a vector of their weights for each row, and each one's values."""
    totals, sums = list(state.totals), [list(row) for row in state.sums]
    for row, vector_ in enumerate(weights):
        for lane, column in enumerate(values):
            weight = vector.extract(vector_, [], [lane])
            totals[row] = arith.addf(totals[row], weight)
            sums[row] = [
                multiply_add(weight, value, sum_)
                for value, sum_ in zip(column, sums[row], strict=True)
            ]
    return State(state.peaks, totals, sums)
