"""Attention of one row of some query heads over a run of cached columns: an online softmax.

The heads share a key head, so that its keys and values are read once for all of them. Lanes are
columns where scores are weighed; how these are multiplied and values are added up depends on what
the caches hold. The transform dialect has no operation that carries maxima and sums from block to
block, so this is built of vector operations directly. Milakov and Gimelshein, 2018 (online
softmax); Dao et al., 2022 (blocks).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import arith, math, memref, scf, vector
from torch_mlir.extras import types as T

from llmc.dialects.attention import HIDDEN
from llmc.dialects.divisor import divisor
from llmc.dialects.index_notation import constant, index
from llmc.pipelines.kernels.cache_rows import channels_of
from llmc.pipelines.kernels.splat import splat
from llmc.pipelines.kernels.vectors import (
    LOG2_E,
    exp2_of_negative,
    floats,
    highest,
    load,
    maximum,
    total,
    width_of,
)

BLOCK = 128
"""Columns of a block, if no more are wanted: scores wait in a buffer until the highest is known."""

LEAST = 1e-30
"""What the weights of a row add up to, at least, unless it sees no column."""

# Columns of a block whose scores become one vector, at least and at most.
_GROUP = (4, 16)


def ask_for_nothing(at: ir.Value) -> None:
    """Of memory, where all was asked for before."""


def ahead_or_here(place: ir.Value, distance: int, end: ir.Value) -> ir.Value:
    """What lies `distance` after `place`; `place`, which is at hand, if that is not before `end`.

    What nobody reads takes its time of memory, too.
    """
    after = arith.addi(place, index(distance))
    exists = arith.cmpi(arith.CmpIPredicate.slt, after, end)
    return arith.select(exists, after, place)


@dataclass(frozen=True)
class Caches:
    """Buffers `[layers, sequences, heads, capacity, channels]`, and the head that is read.

    Where these hold cells, they are as `cache_rows` says.
    """

    keys: ir.Value
    values: ir.Value
    head: list[ir.Value]

    @property
    def channels(self) -> int:
        """What a key has room for."""
        return channels_of(self.keys)

    @property
    def value_channels(self) -> int:
        """What a value has room for."""
        return channels_of(self.values)


class OnlineSoftmax(ABC):
    """The state of `heads` rows: what each has seen so far.

    Buffers `query [heads, D]`, scaled, with `LOG2_E` too; `sums [heads, E]`, of values by their
    weights; `peaks [heads, lanes]`, the highest score in every lane; `totals [heads, lanes]`, of
    weights, to be added up; `shrinks [heads, lanes]`, what these are multiplied by for a new peak;
    and of a block `scores [heads, block]`, which become weights, and `tops [heads, lanes]`, which
    none of these is above, in every lane.
    """

    block: ClassVar[int] = BLOCK

    def __init__(
        self, heads: int, caches: Caches, lanes: int, softcap: float, together: int
    ) -> None:
        """For `heads`, of which `together` are multiplied at once, at most."""
        self.together = divisor(heads, together)
        self.heads, self.caches, self.softcap = heads, caches, softcap
        self.lanes = group_of(lanes)
        self.query = buffer(heads, caches.channels)
        self.sums = buffer(heads, caches.value_channels)
        self.peaks, self.shrinks = (buffer(heads, self.lanes) for _ in range(2))
        self.totals = buffer(heads, self.lanes)
        self.tops = buffer(heads, self.lanes)
        self.scores = buffer(heads, self.block)

    @classmethod
    def bytes(cls, heads: int, channels: int, value_channels: int, lanes: int) -> int:
        """How many bytes the buffers take, where a register has `lanes` floats."""
        return 4 * heads * (channels + value_channels + 4 * group_of(lanes) + cls.block)

    @abstractmethod
    def products(
        self, heads: list[ir.Value], column: ir.Value, at: ir.Value, limit: ir.Value | None
    ) -> list[ir.Value]:
        """For each head a vector of products with the keys of the columns from `column + at` on.

        The heads follow each other. With `limit`, no key from `column + limit` on is read, and it
        does not matter what is in its place.
        """

    @abstractmethod
    def runs(self, count: ir.Value) -> list[tuple[ir.Value, ir.Value, ir.Value | None]]:
        """Where groups of a block's `count` columns begin and end, and the limit of `products`."""

    @abstractmethod
    def seen(
        self, head: ir.Value, column: ir.Value, at: ir.Value, limit: ir.Value | None
    ) -> ir.Value | None:
        """Which columns of a group, from `column + at` on, `head` sees; None where all."""

    @abstractmethod
    def ask(self, begin: ir.Value, end: ir.Value) -> None:
        """Asks memory for what `attend` reads first of the same columns."""

    @abstractmethod
    def add_values(self, column: ir.Value, count: ir.Value) -> None:
        """Shrinks the sums to the new peaks, and adds the block's values by their weights."""

    def reset(self) -> None:
        """Forgets all columns."""
        for head in scf.for_(index(0), index(self.heads)):
            vector.store(splat(HIDDEN, floats(self.lanes)), self.peaks, [head, index(0)])
            vector.store(splat(0.0, floats(self.lanes)), self.totals, [head, index(0)])
            lanes = width_of(self.lanes, self.caches.value_channels)
            for e in scf.for_(index(0), index(self.caches.value_channels), index(lanes)):
                vector.store(splat(0.0, floats(lanes)), self.sums, [head, e])
                scf.yield_([])
            scf.yield_([])

    def attend(self, begin: ir.Value, end: ir.Value) -> None:
        """Takes in columns `begin` to `end - 1`, if there are any."""
        self.last = end
        for column in scf.for_(begin, end, index(self.block)):
            count = arith.minsi(arith.subi(end, column), index(self.block))
            self.weigh(column, count)
            self.add_values(column, count)
            scf.yield_([])

    def a_block_after(self, place: ir.Value) -> ir.Value:
        """The column a block after `place`, or `place`, if none such is taken in."""
        return ahead_or_here(place, self.block, self.last)

    def weigh(self, column: ir.Value, count: ir.Value) -> None:
        """Makes weights of columns `column` to `column + count - 1`, a block at most, and peaks."""
        for heads in self.groups():
            self.weigh_scores(heads, self.score(heads, column, count), count)
            scf.yield_([])

    def groups(self) -> Iterator[list[ir.Value]]:
        """A loop over the heads, as many as are multiplied together at a time."""
        for first in scf.for_(index(0), index(self.heads), index(self.together)):
            yield [arith.addi(first, index(number)) for number in range(self.together)]

    def peak(self, head: ir.Value) -> ir.Value:
        """The highest score that `head` has seen."""
        return memref.load(self.peaks, [head, index(0)])

    def total(self, head: ir.Value) -> ir.Value:
        """The sum of the weights that `head` has given."""
        return total(vector.load(floats(self.lanes), self.totals, [head, index(0)]))

    def score(self, heads: list[ir.Value], column: ir.Value, count: ir.Value) -> list[ir.Value]:
        """Stores a block's scores, and gives for each head a vector none of them is above."""
        before = [splat(HIDDEN, floats(self.lanes))] * len(heads)
        for begin, end, limit in self.runs(count):
            loop = scf.ForOp(begin, end, index(self.lanes), before)
            with ir.InsertionPoint(loop.body):
                at = loop.induction_variable
                products = self.products(heads, column, at, limit)
                seen = [self.seen(head, column, at, limit) for head in heads]
                peaks = self.keep(products, heads, seen, at, loop.inner_iter_args)
                scf.yield_(peaks)
            before = list(loop.results)
        return before

    def keep(
        self,
        products: list[ir.Value],
        heads: list[ir.Value],
        seen: Sequence[ir.Value | None],
        at: ir.Value,
        peaks: Sequence[ir.Value],
    ) -> list[ir.Value]:
        """Stores scores of a group, and gives the higher ones of them and of `peaks`.

        Columns that a head does not see, of `seen`, are hidden.
        """
        after, hidden = [], splat(HIDDEN, floats(self.lanes))
        for head, product, own, peak in zip(heads, products, seen, peaks, strict=True):
            score = bend(product, self.softcap)
            if own is not None:
                score = arith.select(own, score, hidden)
            vector.store(score, self.scores, [head, at])
            after.append(maximum(peak, score))
        return after

    def weigh_scores(
        self,
        heads: list[ir.Value],
        tops: list[ir.Value],
        count: ir.Value,
        ask: Callable[[ir.Value], None] = ask_for_nothing,
    ) -> None:
        """Makes weights of a block's scores, and shrinks what was before to the new peaks.

        No score of the block is above `tops`, as `score` gives them. `ask(at)` asks memory
        meanwhile.
        """
        peaks, sums = [], []
        for head, top in zip(heads, map(highest, tops), strict=True):
            here = [head, index(0)]
            before = load(self.peaks, here, self.lanes)
            peak = maximum(before, top)
            shrink = exp2_of_negative(arith.subf(before, peak))
            vector.store(peak, self.peaks, here)
            vector.store(shrink, self.shrinks, here)
            vector.store(exp2_of_negative(arith.subf(top, peak)), self.tops, here)
            peaks.append(peak)
            sums.append(arith.mulf(load(self.totals, here, self.lanes), shrink))
        loop = scf.ForOp(index(0), count, index(self.lanes), sums)
        with ir.InsertionPoint(loop.body):
            at, after = loop.induction_variable, []
            ask(at)
            for head, peak, sum_ in zip(heads, peaks, loop.inner_iter_args, strict=True):
                place = [head, at]
                weight = exp2_of_negative(arith.subf(load(self.scores, place, self.lanes), peak))
                vector.store(weight, self.scores, place)
                after.append(arith.addf(sum_, weight))
            scf.yield_(after)
        for head, sum_ in zip(heads, loop.results, strict=True):
            vector.store(sum_, self.totals, [head, index(0)])

    def lanes_below(self, count: ir.Value) -> ir.Value:
        """Which lanes are among the first `count`, a number that may be negative."""
        i32 = T.i32()
        type_ = ir.VectorType.get([self.lanes], i32)
        lanes = vector.from_elements(type_, [constant(lane, i32) for lane in range(self.lanes)])
        left = vector.broadcast(type_, arith.index_cast(i32, count))
        return arith.cmpi(arith.CmpIPredicate.slt, lanes, left)


def group_of(lanes: int) -> int:
    """How many columns' scores are a vector where a register has `lanes` floats."""
    least, most = _GROUP
    return min(max(lanes, least), most)


def bend(scores: ir.Value, softcap: float) -> ir.Value:
    """Scores as `softcap` bends them, both times `LOG2_E`; 0 is none."""
    if not softcap:
        return scores
    cap = splat(softcap * LOG2_E, scores.type)
    return arith.mulf(math.tanh(arith.divf(scores, cap)), cap)


def logarithm(peak: ir.Value, total: ir.Value) -> ir.Value:
    """That of the sum of exponentials: `total`, of base 2, of what scores lie below `peak`.

    Of one row, or of one in every lane.
    """
    both, type_ = arith.addf(peak, math.log2(total)), total.type
    make = splat if isinstance(type_, ir.VectorType) else constant
    return arith.mulf(both, make(1 / LOG2_E, type_))


def buffer(*shape: int, element: ir.Type | None = None) -> ir.Value:
    """A buffer on the stack, of float32 unless `element` is given."""
    return memref.alloca(ir.MemRefType.get(shape, element or T.f32()), [], [])
