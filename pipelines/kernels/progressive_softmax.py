"""Attention over caches of cells that reads all bits of the columns that matter alone.

Of most columns a query takes next to nothing: rounding their keys and values to 4 bits is lost
beside the rounding of the few that it does look at to 8 bits. So scores are found by the upper
halves of keys, and again by all bits where they say that a column's weight is a share worth
mentioning; the lower halves of values are read where a weight is. An error of a column shrinks as
its weight, and many small ones even each other out: with e of 4 bits and shares up to s left as
they are, that of a sum is e times the root of s, at most. Wang, Zhang and Han, "SpAtten", 2021
(progressive quantization).

What a share is of, the sum of all weights, is not known before all columns are seen. Most of it is
in the first columns and in the newest ones (Xiao et al., "StreamingLLM", 2023), which each part of
a long cache looks at before its own.
"""

from collections.abc import Sequence
from functools import partial, reduce
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import arith, memref, scf, vector

from llmc.dialects.attention import HIDDEN
from llmc.dialects.cache_cells import LOWER, PANEL, UPPER, Plane
from llmc.dialects.index_notation import index
from llmc.pipelines.kernels.byte_softmax import ByteSoftmax
from llmc.pipelines.kernels.digits import Panels, largest
from llmc.pipelines.kernels.kernel import load_index
from llmc.pipelines.kernels.online_softmax import HEADS, Caches, buffer
from llmc.pipelines.kernels.splat import splat
from llmc.pipelines.kernels.vectors import exponents, floats, highest, load, maximum, minimum

# Shares of the sum of weights, as powers of 2: keys or values of a panel are read whole if a column
# of it has as much. An error of a score is one of its whole weight.
_KEY_SHARE, _VALUE_SHARE = -5.0, -6.0
# A weight of the largest one of a block, below which it is rounded to 0: half of what 1 is worth.
_NOUGHT = 0.499 / largest(1)
# Panels that are looked at before all others: the first one, and as many of the newest less one.
_PANELS = 3
# Up to so many columns their own sum is soon known.
_LONG = 512


class ProgressiveSoftmax(ByteSoftmax):
    """`ByteSoftmax` of one token, over some of the columns `first` to `newest - 1`, which it sees.

    Buffers `places [3, block / 16]`, the first columns of panels of a block: those whose keys each
    of three heads reads whole, and then those of whose values some head reads all bits, and upper
    halves; `whole [heads, block / 16]`, which heads read which values whole; and in every lane,
    `known [heads, lanes]`, the sum of the weights that are known of beforehand, and `least [heads,
    lanes]`, a weight whose values are read whole. A head takes what it would take alone: with whom
    ranks let it share a key head does not matter.
    """

    # Where columns are found to matter, memory has yet to be waited for: once for so many.
    block: ClassVar[int] = 256
    ahead: ClassVar[tuple[Plane, ...]] = (UPPER,)

    def __init__(
        self,
        heads: int,
        caches: Caches,
        lanes: int,
        softcap: float,
        instruction: str,
        columns: tuple[ir.Value, ir.Value],
    ) -> None:
        super().__init__(heads, caches, lanes, softcap, instruction)
        self._columns = columns
        i32, panels = ir.IntegerType.get_signless(32), self.block // PANEL
        self._places = buffer(HEADS, panels, element=i32)
        self._whole = buffer(heads, panels, element=i32)
        self._known, self._least = (buffer(heads, self.lanes) for _ in range(2))

    @classmethod
    def bytes(cls, heads: int, channels: int, value_channels: int, lanes: int) -> int:
        """What the buffers take."""
        known = 4 * (2 * heads * lanes + (HEADS + heads) * cls.block // PANEL)
        return super().bytes(heads, channels, value_channels, lanes) + known

    def begin_columns(self) -> None:
        """Finds out what is known beforehand, if there are columns enough for it to matter.

        Peaks stay, for weights of all columns are by the same one then.
        """
        self.begin, self.end = first, newest = self._columns
        first, newest = self.panels(first, newest)
        length = arith.subi(newest, first)
        is_long = arith.cmpi(arith.CmpIPredicate.sgt, length, index(_LONG))
        panels = arith.select(is_long, index(_PANELS), index(0))
        for panel in scf.for_(index(0), panels):
            behind = arith.muli(arith.subi(index(_PANELS), panel), index(PANEL))
            is_first = arith.cmpi(arith.CmpIPredicate.eq, panel, index(0))
            column = arith.select(is_first, first, arith.subi(newest, behind))
            self.weigh(column, index(PANEL), self._score_roughly)
            scf.yield_([])
        for head in scf.for_(index(0), index(self.heads)):
            sum_ = vector.broadcast(floats(self.lanes), self.total(head))
            for value, kept in ((sum_, self._known), (splat(0.0, floats(self.lanes)), self.totals)):
                vector.store(value, kept, [head, index(0)])
            scf.yield_([])

    def score(self, heads: list[ir.Value], column: ir.Value, count: ir.Value) -> list[ir.Value]:
        """By the upper halves of keys, and by all bits in panels with a share worth mentioning."""
        likely = [self._least_score(head) for head in heads]
        tops = self._score_roughly(heads, column, count, likely)
        in_block = [_least_beside(highest(top)) for top in tops]
        least = [maximum(*each) for each in zip(likely, in_block, strict=True)]
        chosen = self._chosen_by_each(heads, least, count)
        pairs = zip(heads, chosen, tops, strict=True)
        return [self._refine(head, panels, column, top) for head, panels, top in pairs]

    def _chosen_by_each(
        self, heads: list[ir.Value], least: list[ir.Value], count: ir.Value
    ) -> list[Panels]:
        """For each head the panels of a block where it has a score not below its `least`."""
        loop = scf.ForOp(index(0), count, index(PANEL), [index(0)] * len(heads))
        with ir.InsertionPoint(loop.body):
            at, counts = loop.induction_variable, list(loop.inner_iter_args)
            scf.yield_(self._noted(at, self._reach(heads, least, at), counts))
        return [self._panels(True, *each) for each in enumerate(loop.results)]

    def _refine(self, head: ir.Value, panels: Panels, column: ir.Value, top: ir.Value) -> ir.Value:
        """Stores scores by all bits of keys, which may be above `top`; gives what none is above."""
        loop = panels.each([top])
        with ir.InsertionPoint(loop.body):
            first, tops = panels.first(loop.induction_variable), list(loop.inner_iter_args)
            for lane in range(0, PANEL, self.lanes):
                at = arith.addi(first, index(lane))
                place = arith.addi(column, at)
                if self.softcap:  # Bent scores are no sums.
                    (upper,) = self.by_keys.of_halves([head], place, UPPER)
                else:
                    upper = load(self.scores, [head, at], self.lanes)
                (lower,) = self.by_keys.of_halves([head], place, LOWER)
                tops = self.keep([arith.addf(upper, lower)], [head], column, at, None, tops)
            scf.yield_(tops)
        return loop.results[0]

    def share_of(
        self, share: ir.Value, panels: Panels, head: ir.Value, panel: ir.Value
    ) -> ir.Value:
        """None of a panel that a head reads as others of `panels` are not read."""
        none, whole = splat(0, share.type), self._reads_whole(head, panel, self.lanes)
        return arith.select(whole, *((share, none) if panels.whole else (none, share)))

    def _reads_whole(self, head: ir.Value, panel: ir.Value, lanes: int) -> ir.Value:
        """Whether `head` was found to read all bits of the panel from column `panel` on.

        In every lane: LLVM makes a branch, which no CPU foresees, of one truth for a whole vector.
        """
        flag = memref.load(self._whole, [head, arith.divui(panel, index(PANEL))])
        flags = vector.broadcast(ir.VectorType.get([lanes], flag.type), flag)
        return arith.cmpi(arith.CmpIPredicate.slt, flags, splat(0, flags.type))

    def _score_roughly(
        self,
        heads: list[ir.Value],
        column: ir.Value,
        count: ir.Value,
        likely: list[ir.Value] | None = None,
    ) -> list[ir.Value]:
        """Stores scores by the upper halves of keys; memory is asked for those of the values.

        It is asked for lower halves, too, in panels where a head has a score not below its own of
        `likely`: those of keys are read as soon as all scores of a block are known.
        """
        hidden = [splat(HIDDEN, floats(self.lanes))] * len(heads)
        loop = scf.ForOp(index(0), count, index(PANEL), hidden)
        with ir.InsertionPoint(loop.body):
            at, tops = loop.induction_variable, list(loop.inner_iter_args)
            self.values.prefetch(arith.addi(column, at), self.ahead)
            for lane in range(0, PANEL, self.lanes):
                group = arith.addi(at, index(lane))
                products = self.by_keys.of_halves(heads, arith.addi(column, group), UPPER)
                tops = self.keep(products, heads, column, group, None, tops)
            if likely is not None:
                self._ask_if_any(self._reach(heads, likely, at), arith.addi(column, at))
            scf.yield_(tops)
        return list(loop.results)

    def _ask_if_any(self, flags: list[ir.Value], panel: ir.Value) -> None:
        """Asks memory for the lower halves of a panel that is flagged."""
        with ir.InsertionPoint(scf.IfOp(reduce(arith.ori, flags)).then_block):
            for cells in (self.keys, self.values):
                cells.prefetch(panel, (LOWER,))
            scf.yield_([])

    def _least_score(self, head: ir.Value) -> ir.Value:
        """The score of a column whose key is read whole by what was known before its block.

        In every lane. It lies by the share below the sum of weights: the exponent of that, which is
        its logarithm but for a fraction.
        """
        here = [head, index(0)]
        known, peak = (load(each, here, self.lanes) for each in (self._known, self.peaks))
        sum_ = maximum(known, vector.broadcast(known.type, self.total(head)))
        return _least_beside(arith.addf(peak, arith.sitofp(sum_.type, exponents(sum_))))

    def panels_of(
        self, heads: list[ir.Value], column: ir.Value, count: ir.Value
    ) -> Sequence[Panels]:
        """Those where some head has a weight that is no share worth mentioning, or one that is.

        Those without a weight that would not be rounded to 0 are left out.
        """
        least, nought = [], []
        for head in heads:
            here = [head, index(0)]
            known, shrink, top = (
                load(each, here, self.lanes) for each in (self._known, self.shrinks, self.tops)
            )
            known = arith.mulf(known, shrink)
            vector.store(known, self._known, here)
            sum_ = maximum(known, vector.broadcast(known.type, self.total(head)))
            least.append(arith.mulf(sum_, splat(2.0**_VALUE_SHARE, floats(self.lanes))))
            vector.store(least[-1], self._least, here)
            nought.append(arith.mulf(minimum(top, least[-1]), splat(_NOUGHT, floats(self.lanes))))
        chosen, others = self._chosen_by_any(heads, least, nought, count)
        self._ask_for_values(chosen, column)
        # The loops over the others ask for as many panels of the next block as they have turns.
        for turn in scf.for_(others.end, index(self.block // PANEL)):
            place = arith.addi(column, others.place(turn))
            self.keys.prefetch(self.a_block_after(place), self.ahead)
            scf.yield_([])
        return [others, chosen]

    def add_values(self, column: ir.Value, count: ir.Value) -> None:
        """As `ByteSoftmax`; the largest scales are the same for all heads and panels."""
        _, cells = self.units.type.shape
        self._largest = [self._largest_scale(column, count, cell) for cell in range(cells)]
        super().add_values(column, count)

    def _largest_scale(self, column: ir.Value, count: ir.Value, cell: int) -> ir.Value:
        """That of the values of a block, in every lane."""
        loop = scf.ForOp(index(0), count, index(self.lanes), [splat(0.0, floats(self.lanes))])
        with ir.InsertionPoint(loop.body):
            place = arith.addi(column, loop.induction_variable)
            scf.yield_([maximum(loop.inner_iter_args[0], self.counted_scales(place, cell))])
        return highest(loop.results[0])

    def shares_at_most(
        self, panels: Panels, heads: list[ir.Value], cell: int, column: ir.Value
    ) -> list[ir.Value]:
        """The largest weight by the largest scale: both are known before these are multiplied."""
        most = []
        for head in heads:
            top, least = (
                load(each, [head, index(0)], self.lanes) for each in (self.tops, self._least)
            )
            weight = top if panels.whole else minimum(top, least)
            most.append(arith.mulf(weight, self._largest[cell]))
        return most

    def _chosen_by_any(
        self,
        heads: list[ir.Value],
        least: list[ir.Value],
        nought: list[ir.Value],
        count: ir.Value,
    ) -> tuple[Panels, Panels]:
        """The panels of a block where some head has a weight that is not below its `least`.

        Then those where some head has none, but one that is not below its `nought`.
        """
        i32 = self._places.type.element_type
        loop = scf.ForOp(index(0), count, index(PANEL), [index(0), index(0)])
        with ir.InsertionPoint(loop.body):
            at, counts = loop.induction_variable, list(loop.inner_iter_args)
            flags = self._reach(heads, least, at)
            for head, flag in zip(heads, flags, strict=True):
                place = [head, arith.divui(at, index(PANEL))]
                memref.store(arith.extsi(i32, flag), self._whole, place)
            pairs = zip(self._reach(heads, nought, at), flags, strict=True)
            rough = [arith.cmpi(arith.CmpIPredicate.ugt, *pair) for pair in pairs]
            any_ = [reduce(arith.ori, each) for each in (flags, rough)]
            scf.yield_(self._noted(at, any_, counts))
        chosen, others = loop.results
        return self._panels(True, 0, chosen), self._panels(False, 1, others)

    def _noted(self, at: ir.Value, flags: list[ir.Value], counts: list[ir.Value]) -> list[ir.Value]:
        """Adds the panel from `at` on to rows of `places` that are flagged; the `counts` then."""
        more = []
        for number, (flag, before) in enumerate(zip(flags, counts, strict=True)):
            place = arith.index_cast(self._places.type.element_type, at)
            memref.store(place, self._places, [index(number), before])
            more.append(arith.addi(before, arith.index_castui(ir.IndexType.get(), flag)))
        return more

    def _panels(self, whole: bool, number: int, count: ir.Value) -> Panels:
        """The first `count` panels of row `number` of `places`."""
        return Panels(whole, count, 1, partial(load_index, self._places, index(number)))

    def _ask_for_values(self, panels: Panels, column: ir.Value) -> None:
        """Asks memory for the lower halves of the values of panels of the block of `column`."""
        loop = panels.each([])
        with ir.InsertionPoint(loop.body):
            place = arith.addi(column, panels.first(loop.induction_variable))
            self.values.prefetch(place, (LOWER,))
            scf.yield_([])

    def _reach(self, heads: list[ir.Value], bounds: list[ir.Value], at: ir.Value) -> list[ir.Value]:
        """Whether heads have scores in the panel from `at` on that are not below their bounds."""
        i1, flags = ir.IntegerType.get_signless(1), []
        for head, bound in zip(heads, bounds, strict=True):
            wide = vector.broadcast(floats(PANEL), vector.extract(bound, [], [0]))
            high = arith.cmpf(arith.CmpFPredicate.OGE, load(self.scores, [head, at], PANEL), wide)
            flags.append(vector.reduction(i1, vector.CombiningKind.OR, high))
        return flags


def _least_beside(score: ir.Value) -> ir.Value:
    """The least score beside `score` of a column whose key is read whole."""
    return arith.addf(score, splat(_KEY_SHARE, score.type))
