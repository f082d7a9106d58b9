"""Attention over caches of cells that reads all bits of the columns that matter alone.

Of most columns a query takes next to nothing: rounding their keys and values to 4 bits is lost
beside the rounding of the few that it does look at to 8 bits. So a block is weighed by the upper
halves of keys, and the upper halves of its values are added up; but panels with a column whose
weight is a share worth mentioning are put off, memory being asked for their lower halves, and are
taken in by all bits at the end of the block. An error of a column shrinks as its weight, and many
small ones even each other out: with e of 4 bits and shares up to s left as they are, that of a sum
is e times the root of s, at most. Wang, Zhang and Han, "SpAtten", 2021 (progressive quantization).

A share is one of the sum of all weights. A block is long, so that its own are known; of those of
other parts of a long cache, most are in the first columns and in the newest ones (Xiao et al.,
"StreamingLLM", 2023), which each part looks at before its own.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import arith, memref, scf, vector
from torch_mlir.extras import types as T

from llmc.dialects.attention import HIDDEN
from llmc.dialects.blocks import Q8_0
from llmc.dialects.cache_cells import LOWER, PANEL, UPPER, Plane
from llmc.dialects.index_notation import index
from llmc.pipelines.kernels.byte_softmax import ByteSoftmax
from llmc.pipelines.kernels.digits import Panels, largest
from llmc.pipelines.kernels.kernel import load_index
from llmc.pipelines.kernels.online_softmax import Caches, ahead_or_here, ask_for_nothing, buffer
from llmc.pipelines.kernels.splat import splat
from llmc.pipelines.kernels.vectors import floats, highest, load, maximum, minimum

# The share of the sum of weights, as a power of 2, for which a head has a panel put off.
_SHARE = -6.5
# A weight of the largest one of a block, below which it is rounded to 0: half of what 1 is worth.
_NOUGHT = 0.499 / largest(1)
# Panels that are looked at beforehand: the first one, and as many of the newest less one.
_BEFOREHAND = 3


@dataclass(frozen=True)
class _Stretch:
    """Columns of a block whose values are added up at once.

    Those of its weights `begin` to `end - 1`, where it begins with `column` and has `count`.
    """

    column: ir.Value
    count: ir.Value
    begin: ir.Value
    end: ir.Value


class ProgressiveSoftmax(ByteSoftmax):
    """`ByteSoftmax` of one token, over some of the columns that it sees.

    Buffers of panels of a block: `put_off [block / 16]`, the columns of those that some of the
    heads that are multiplied together put off, and `wanted [heads, block / 16]`, which of them a
    head does; and `rest [at_once / 16]`, where the weights of others lie. In every lane, `known
    [heads, lanes]` is the sum of the weights that are known beforehand, `least [heads, lanes]` the
    weight for which a panel is put off, and `largest [cells, lanes]` the largest scale of values of
    some columns. A head takes what it would take alone: with whom ranks let it share a key head
    does not matter.
    """

    # Most parts are one: all of their keys come from memory, and then all values.
    block: ClassVar[int] = 1024
    at_once: ClassVar[int] = 256
    ahead: ClassVar[tuple[Plane, ...]] = (UPPER,)

    def __init__(
        self,
        heads: int,
        caches: Caches,
        lanes: int,
        softcap: float,
        together: int,
        instruction: str,
        columns: tuple[ir.Value, ir.Value],
    ) -> None:
        super().__init__(heads, caches, lanes, softcap, together, instruction)
        self._columns = columns
        i32, panels = T.i32(), self.block // PANEL
        self._put_off = buffer(panels, element=i32)
        self._wanted = buffer(heads, panels, element=i32)
        self._rest = buffer(self.at_once // PANEL, element=i32)
        self._known, self._least = (buffer(heads, self.lanes) for _ in range(2))
        self._largest = buffer(self.units.type.shape[1], self.lanes)

    @classmethod
    def bytes(cls, heads: int, channels: int, value_channels: int, lanes: int) -> int:
        """What the buffers take."""
        panels = (1 + heads) * cls.block // PANEL + cls.at_once // PANEL
        own = 4 * (panels + (2 * heads + value_channels // Q8_0.values) * lanes)
        return super().bytes(heads, channels, value_channels, lanes) + own

    def ask(self, begin: ir.Value, end: ir.Value) -> None:
        """The keys that are looked at beforehand, and the first others."""
        first, last = self.panels(begin, end)
        for column in self._beforehand(first, last):
            self.keys.prefetch(column, self.ahead)
            scf.yield_([])
        self.ask_for_keys(first, last)

    def begin_columns(self, first: ir.Value, last: ir.Value) -> None:
        """Finds out what is known beforehand of columns that are not taken in.

        Peaks stay, for weights of all columns are by the same one then.
        """
        self.begin, self.end = self._columns
        for column in self._beforehand(first, last):
            self._weigh_roughly(column, index(PANEL), ask_for_nothing, ask_for_nothing)
            scf.yield_([])
        for head in scf.for_(index(0), index(self.heads)):
            sum_ = vector.broadcast(floats(self.lanes), self.total(head))
            for value, kept in ((sum_, self._known), (splat(0.0, sum_.type), self.totals)):
                vector.store(value, kept, [head, index(0)])
            scf.yield_([])

    def weigh(self, column: ir.Value, count: ir.Value) -> None:
        """By the upper halves of keys."""
        asks = (partial(ask, column, count) for ask in (self._ask_ahead, self._ask_for_values))
        self._weigh_roughly(column, count, *asks)

    def add_values(self, column: ir.Value, count: ir.Value) -> None:
        """The upper halves of values of panels that are not put off, and all of those that are."""
        for heads in self.groups():
            nought = [self._find_bounds(head) for head in heads]
            loop = scf.ForOp(index(0), count, index(self.at_once), [index(0)])
            with ir.InsertionPoint(loop.body):
                at, (waiting,) = loop.induction_variable, loop.inner_iter_args
                end = arith.minui(arith.addi(at, index(self.at_once)), count)
                stretch = _Stretch(column, count, at, end)
                rest, waiting = self._sort_out(heads, nought, stretch, waiting)
                self._add_roughly(rest, heads, stretch)
                scf.yield_([waiting])
            self._take_in(heads, loop.results[0])
            scf.yield_([])
        self.ask_for_keys(arith.addi(column, index(self.block)), self.last)

    def shares_at_most(
        self, panels: Panels, heads: list[ir.Value], cell: ir.Value
    ) -> list[ir.Value]:
        """Of panels that are not put off, the largest weight by the largest scale.

        Both are known before they are multiplied.
        """
        if panels.whole:
            return super().shares_at_most(panels, heads, cell)
        scale, most = load(self._largest, [cell, index(0)], self.lanes), []
        for head in heads:
            here = [head, index(0)]
            top, least = (load(each, here, self.lanes) for each in (self.tops, self._least))
            most.append(arith.mulf(minimum(top, least), scale))
        return most

    def _beforehand(self, first: ir.Value, last: ir.Value) -> Iterator[ir.Value]:
        """A loop over what is looked at beforehand and not taken in from `first` to `last`."""
        oldest, newest = self.panels(*self._columns)
        panels = arith.divui(arith.subi(newest, oldest), index(PANEL))
        panels = arith.minui(panels, index(_BEFOREHAND))
        for number in scf.for_(index(0), panels):
            behind = arith.muli(arith.subi(panels, number), index(PANEL))
            is_oldest = arith.cmpi(arith.CmpIPredicate.eq, number, index(0))
            column = arith.select(is_oldest, oldest, arith.subi(newest, behind))
            is_before = arith.cmpi(arith.CmpIPredicate.slt, column, first)
            is_behind = arith.cmpi(arith.CmpIPredicate.sge, column, last)
            with ir.InsertionPoint(scf.IfOp(arith.ori(is_before, is_behind)).then_block):
                yield column
            scf.yield_([])

    def _ask_ahead(self, column: ir.Value, count: ir.Value, at: ir.Value) -> None:
        """Asks for keys of the same block further on, or where these end for the first values."""
        ahead = index(self.at_once)
        end = arith.subi(arith.maxui(count, ahead), ahead)
        choice = scf.IfOp(arith.cmpi(arith.CmpIPredicate.ult, at, end), has_else=True)
        with ir.InsertionPoint(choice.then_block):
            self.keys.prefetch(arith.addi(column, arith.addi(at, ahead)), self.ahead)
            scf.yield_([])
        with ir.InsertionPoint(choice.else_block):
            self.values.prefetch(arith.addi(column, arith.subi(at, end)), self.ahead)
            scf.yield_([])

    def _ask_for_values(self, column: ir.Value, count: ir.Value, at: ir.Value) -> None:
        """Asks for values, the second time as many as are added up at once.

        Evenly over the block, if that is as long as some power of 2 times as many.
        """
        bits = index(0)
        for times in range(2, self.block // self.at_once + 1, 2):
            is_long = arith.cmpi(arith.CmpIPredicate.uge, count, index(times * self.at_once))
            bits = arith.addi(bits, arith.index_castui(bits.type, is_long))
        each = arith.shli(index(PANEL), bits)
        within = arith.shrui(at, bits)
        place = arith.addi(within, index(self.at_once))
        is_turn = arith.cmpi(arith.CmpIPredicate.eq, arith.remui(at, each), index(0))
        is_near = arith.cmpi(arith.CmpIPredicate.ult, within, index(self.at_once))
        exists = arith.cmpi(arith.CmpIPredicate.ult, place, count)
        wanted = reduce(arith.andi, (is_turn, is_near, exists))
        with ir.InsertionPoint(scf.IfOp(wanted).then_block):
            self.values.prefetch(arith.addi(column, place), self.ahead)
            scf.yield_([])

    def _weigh_roughly(
        self,
        column: ir.Value,
        count: ir.Value,
        ask: Callable[[ir.Value], None],
        ask_later: Callable[[ir.Value], None],
    ) -> None:
        """By the upper halves of keys; memory is asked while they are multiplied, and later."""
        for heads in self.groups():
            tops = self._score_roughly(heads, column, count, ask)
            self.weigh_scores(heads, tops, count, ask_later)
            scf.yield_([])

    def _score_roughly(
        self,
        heads: list[ir.Value],
        column: ir.Value,
        count: ir.Value,
        ask: Callable[[ir.Value], None],
    ) -> list[ir.Value]:
        """Stores scores by the upper halves of keys; memory is asked by `ask(at)` meanwhile."""
        hidden = [splat(HIDDEN, floats(self.lanes))] * len(heads)
        loop = scf.ForOp(index(0), count, index(PANEL), hidden)
        with ir.InsertionPoint(loop.body):
            panel = loop.induction_variable
            ask(panel)
            groups = self._groups_of_panel(loop.inner_iter_args)
            with ir.InsertionPoint(groups.body):
                at = arith.addi(panel, groups.induction_variable)
                place = arith.addi(column, at)
                products = self.by_keys.of_halves(heads, place, UPPER)
                seen = [self.asked_for(place)] * len(heads)
                scf.yield_(self.keep(products, heads, seen, at, groups.inner_iter_args))
            scf.yield_(groups.results)
        return list(loop.results)

    def _find_bounds(self, head: ir.Value) -> ir.Value:
        """Stores the weight for which a panel is put off; gives that below which one becomes 0."""
        here = [head, index(0)]
        known, top = self._shrink_known(head), load(self.tops, here, self.lanes)
        sum_ = arith.addf(known, vector.broadcast(known.type, self.total(head)))
        least = arith.mulf(sum_, splat(2.0**_SHARE, sum_.type))
        vector.store(least, self._least, here)
        return arith.mulf(minimum(top, least), splat(_NOUGHT, least.type))

    def _shrink_known(self, head: ir.Value) -> ir.Value:
        """Of what is known beforehand, what is left of it at a new peak."""
        here = [head, index(0)]
        known, shrink = (load(each, here, self.lanes) for each in (self._known, self.shrinks))
        left = arith.mulf(known, shrink)
        vector.store(left, self._known, here)
        return left

    def _sort_out(
        self, heads: list[ir.Value], nought: list[ir.Value], stretch: _Stretch, waiting: ir.Value
    ) -> tuple[Panels, ir.Value]:
        """Puts off those panels of a stretch where some head has a weight of note.

        It gives those where some head has another that is not below its `nought`, and how many are
        `waiting` then.
        """
        i32 = self._rest.type.element_type
        least = [load(self._least, [head, index(0)], self.lanes) for head in heads]
        loop = scf.ForOp(stretch.begin, stretch.end, index(PANEL), [index(0), waiting])
        with ir.InsertionPoint(loop.body):
            at, counts = loop.induction_variable, list(loop.inner_iter_args)
            wanted = self._reach(heads, least, at)
            pairs = zip(self._reach(heads, nought, at), wanted, strict=True)
            others = [arith.cmpi(arith.CmpIPredicate.ugt, *pair) for pair in pairs]
            flags = [reduce(arith.ori, each) for each in (others, wanted)]
            memref.store(arith.index_cast(i32, at), self._rest, counts[:1])
            with ir.InsertionPoint(scf.IfOp(flags[1]).then_block):
                self._put_off_panel(heads, wanted, stretch.column, at, counts[1])
                scf.yield_([])
            more = (arith.index_castui(index(0).type, flag) for flag in flags)
            scf.yield_(list(map(arith.addi, counts, more)))
        rest, waiting = loop.results
        at = partial(load_index, self._rest)
        return Panels(
            False, rest, 1, at, lambda turn: arith.addi(stretch.column, at(turn))
        ), waiting

    def _put_off_panel(
        self,
        heads: list[ir.Value],
        wanted: list[ir.Value],
        column: ir.Value,
        at: ir.Value,
        number: ir.Value,
    ) -> None:
        """Notes the panel of weights `at`, and takes these away from the heads that want it."""
        place, i32 = arith.addi(column, at), self._put_off.type.element_type
        memref.store(arith.index_cast(i32, place), self._put_off, [number])
        for cells in (self.keys, self.values):
            cells.prefetch(place, (LOWER,))
        for head, flag in zip(heads, wanted, strict=True):
            memref.store(arith.extsi(i32, flag), self._wanted, [head, number])
            mask, here = self._wants(head, number), [head, index(0)]
            left, none = load(self.totals, here, self.lanes), splat(0.0, floats(self.lanes))
            for lane in range(0, PANEL, self.lanes):
                weights = [head, arith.addi(at, index(lane))]
                before = load(self.scores, weights, self.lanes)
                vector.store(arith.select(mask, none, before), self.scores, weights)
                left = arith.subf(left, arith.select(mask, before, none))
            vector.store(left, self.totals, here)

    def _wants(self, head: ir.Value, number: ir.Value) -> ir.Value:
        """Whether `head` put off the panel of that number.

        In every lane: LLVM makes a branch, which no CPU foresees, of one truth for a whole vector.
        """
        flag = memref.load(self._wanted, [head, number])
        flags = vector.broadcast(ir.VectorType.get([self.lanes], flag.type), flag)
        return arith.cmpi(arith.CmpIPredicate.slt, flags, splat(0, flags.type))

    def _add_roughly(self, rest: Panels, heads: list[ir.Value], stretch: _Stretch) -> None:
        """The upper halves of values of the `rest` of a stretch."""

        def ask(cells: Sequence[ir.Value] | None, turn: ir.Value) -> None:
            at = arith.addi(stretch.begin, rest.place(turn))
            place = arith.addi(stretch.column, ahead_or_here(at, 2 * self.at_once, stretch.count))
            self.values.prefetch(place, self.ahead, cells)

        # Loops over the rest ask for as many panels as they have turns.
        for turn in scf.for_(rest.end, index(self.at_once // PANEL)):
            ask(None, turn)
            scf.yield_([])
        self._find_largest_scales(stretch)
        self.add_panels(rest, heads, ask)
        # The next ones have the same peak.
        for head in heads:
            vector.store(splat(1.0, floats(self.lanes)), self.shrinks, [head, index(0)])

    def _find_largest_scales(self, stretch: _Stretch) -> None:
        """Stores those of the values of a stretch, cell by cell."""
        for cell in scf.for_(index(0), index(self._largest.type.shape[0])):
            none = splat(0.0, floats(self.lanes))
            loop = scf.ForOp(stretch.begin, stretch.end, index(self.lanes), [none])
            with ir.InsertionPoint(loop.body):
                place = arith.addi(stretch.column, loop.induction_variable)
                scales = self.counted_scales(place, cell)
                scf.yield_([maximum(loop.inner_iter_args[0], scales)])
            vector.store(highest(loop.results[0]), self._largest, [cell, index(0)])
            scf.yield_([])

    def _take_in(self, heads: list[ir.Value], waiting: ir.Value) -> None:
        """Panels that were put off, by all bits of keys and values."""
        panels = index(self.at_once // PANEL)
        for first in scf.for_(index(0), waiting, panels):
            turns = arith.minui(arith.subi(waiting, first), panels)

            def column(turn: ir.Value, first: ir.Value = first) -> ir.Value:
                return load_index(self._put_off, arith.addi(first, turn))

            whole = Panels(True, turns, 1, lambda turn: arith.muli(turn, index(PANEL)), column)
            tops = self._score_whole(whole, heads, first)
            self.weigh_scores(heads, tops, arith.muli(turns, index(PANEL)))
            for head in heads:
                self._shrink_known(head)
            self.add_panels(whole, heads, lambda cells, turn: None)
            scf.yield_([])

    def _score_whole(
        self, panels: Panels, heads: list[ir.Value], first: ir.Value
    ) -> list[ir.Value]:
        """Stores scores of panels that were put off, of which the first has that number."""
        loop = panels.each([splat(HIDDEN, floats(self.lanes))] * len(heads))
        with ir.InsertionPoint(loop.body):
            turn = loop.induction_variable
            masks = [self._wants(head, arith.addi(first, turn)) for head in heads]
            groups = self._groups_of_panel(loop.inner_iter_args)
            with ir.InsertionPoint(groups.body):
                at, place = (
                    arith.addi(each(turn), groups.induction_variable)
                    for each in (panels.at, panels.column)
                )
                products = self.by_keys.of(heads, place)
                seen = [arith.andi(mask, self.asked_for(place)) for mask in masks]
                scf.yield_(self.keep(products, heads, seen, at, groups.inner_iter_args))
            scf.yield_(groups.results)
        return list(loop.results)

    def _groups_of_panel(self, carried: Sequence[ir.Value]) -> scf.ForOp:
        """A loop over the columns of a panel, as many at a time as a vector has lanes."""
        return scf.ForOp(index(0), index(PANEL), index(self.lanes), carried)

    def _reach(self, heads: list[ir.Value], bounds: list[ir.Value], at: ir.Value) -> list[ir.Value]:
        """Whether heads have weights in the panel from `at` on that are not below their bounds."""
        i1, flags = T.bool(), []
        for head, bound in zip(heads, bounds, strict=True):
            wide = vector.broadcast(floats(PANEL), vector.extract(bound, [], [0]))
            high = arith.cmpf(arith.CmpFPredicate.OGE, load(self.scores, [head, at], PANEL), wide)
            flags.append(vector.reduction(i1, vector.CombiningKind.OR, high))
        return flags
