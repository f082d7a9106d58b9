"""Attention over caches of cells of 8 bits: products of bytes in integers.

Lanes are columns where keys are multiplied, and channels where values are added up, as they lie in
cells. Queries are transformed and rounded to 8 bits as keys are. Weights, of which many small ones
count as much as a large one, become integers of two digits of 7 bits, multiplied one by one: beside
the rounding of values to 8 bits, theirs is lost.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from math import lcm
from typing import ClassVar, TypeAlias

from torch_mlir import ir
from torch_mlir.dialects import arith, memref, scf, vector
from torch_mlir.extras import types as T

from llmc.dialects.block_panels import WORD
from llmc.dialects.blocks import Q8_0
from llmc.dialects.cache_cells import KEYS, PANEL, PLANES, UPPER, VALUES, Plane
from llmc.dialects.divisor import divisor
from llmc.dialects.index_notation import index
from llmc.pipelines.kernels.byte_instructions import INSTRUCTIONS
from llmc.pipelines.kernels.cell_panels import CellPanels
from llmc.pipelines.kernels.cell_words import (
    EACH_WORD,
    LARGEST_HALF,
    halves_at_once,
    halves_of,
    integers_of,
    offset,
    raised,
    word_in_lanes,
)
from llmc.pipelines.kernels.digits import BITS, DIGITS, Panels, joined
from llmc.pipelines.kernels.kernel import multiply_add
from llmc.pipelines.kernels.key_products import KeyProducts
from llmc.pipelines.kernels.online_softmax import BLOCK, Caches, OnlineSoftmax, buffer
from llmc.pipelines.kernels.splat import splat
from llmc.pipelines.kernels.vectors import (
    LEAST_DIVISOR,
    floats,
    highest,
    load,
    maximum,
)

# Sums of 32 bits of instructions that have as many whatever the register.
_LANES = {"vpmaddubsw": 8, "sdot": 4, "smmla": 4}
# Vectors of sums that stay in registers, of which there are 32 if they are the widest.
_SUMS = {16: 24, 8: 12, 4: 12}

Run: TypeAlias = Sequence[tuple[ir.Value, int]]
"""Cells, and lanes of values that are the first of as many words as a register has."""


Ask: TypeAlias = Callable[[Sequence[ir.Value], ir.Value], None]
"""Asks memory for what is read later of some cells, in a turn of a loop over panels."""


class ByteSoftmax(OnlineSoftmax):
    """`OnlineSoftmax` over keys and values in cells, as `cache_rows` says, by an `instruction`.

    Buffers of some columns: digits of weights by scales `shares [heads, cells, 2, columns]`,
    of which 1 is worth `units [heads, cells]`, and `offsets [heads, cells]` for the sums of
    products with upper halves: what is beside a head in a workgroup has no part in how its numbers
    are rounded.
    """

    at_once: ClassVar[int] = BLOCK
    """Columns of a block whose values are added up at once, at most."""

    ahead: ClassVar[tuple[Plane, ...]] = PLANES
    """Of keys and values, what memory is asked for before it is known which columns matter."""

    def __init__(
        self,
        heads: int,
        caches: Caches,
        lanes: int,
        softcap: float,
        together: int,
        instruction: str,
    ) -> None:
        super().__init__(heads, caches, _LANES.get(instruction, lanes), softcap, together)
        self.multiply = INSTRUCTIONS[instruction]
        self.keys = CellPanels(KEYS, caches.keys, caches.head)
        self.values = CellPanels(VALUES, caches.values, caches.head)
        i32, byte = T.i32(), T.i8()
        self.words = ir.VectorType.get([self.lanes], i32)
        self.by_keys = KeyProducts(self.query, self.keys, self.lanes, self.multiply)
        in_value = caches.value_channels // Q8_0.values
        self.shares = buffer(heads, in_value, DIGITS, self.at_once, element=byte)
        self.units, self.offsets = buffer(heads, in_value), buffer(heads, in_value, element=i32)

    @classmethod
    def bytes(cls, heads: int, channels: int, value_channels: int, lanes: int) -> int:
        """What the buffers take."""
        of_head = value_channels // Q8_0.values * (DIGITS * cls.at_once + 8)
        others = super().bytes(heads, channels, value_channels, lanes)
        return others + KeyProducts.bytes(heads, channels) + heads * of_head

    def ask(self, begin: ir.Value, end: ir.Value) -> None:
        """The first keys."""
        self.ask_for_keys(*self.panels(begin, end))

    def ask_for_keys(self, first: ir.Value, last: ir.Value) -> None:
        """Those of panels from column `first` on, of as many as are added up at once."""
        soon = arith.minsi(last, arith.addi(first, index(self.at_once)))
        for column in scf.for_(first, soon, index(PANEL)):
            self.keys.prefetch(column, self.ahead)
            scf.yield_([])

    def attend(self, begin: ir.Value, end: ir.Value) -> None:
        """Takes in columns `begin` to `end - 1`, if there are any, by whole panels."""
        first, last = self.panels(begin, end)
        self.by_keys.round_queries()
        self.begin_columns(first, last)
        self.begin, self.end = begin, end
        super().attend(first, last)

    def begin_columns(self, first: ir.Value, last: ir.Value) -> None:
        """Prepares for panels from column `first` to before `last`: here nothing is left to do."""

    def panels(self, begin: ir.Value, end: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Where the panels of columns `begin` to `end - 1` begin and end."""
        first, last = (
            arith.muli(op(column, index(PANEL)), index(PANEL))
            for op, column in ((arith.divui, begin), (arith.ceildivsi, end))
        )
        any_ = arith.cmpi(arith.CmpIPredicate.slt, begin, end)
        return first, arith.select(any_, last, first)

    def runs(self, count: ir.Value) -> list[tuple[ir.Value, ir.Value, ir.Value | None]]:
        """All columns: panels are whole."""
        return [(index(0), count, None)]

    def seen(
        self, head: ir.Value, column: ir.Value, at: ir.Value, limit: ir.Value | None
    ) -> ir.Value | None:
        """The columns that are asked for."""
        return self.asked_for(arith.addi(column, at))

    def asked_for(self, place: ir.Value) -> ir.Value:
        """Which of the columns from `place` on are asked for, not only in a panel that is."""
        before, below = (
            self.lanes_below(arith.subi(bound, place)) for bound in (self.begin, self.end)
        )
        return arith.xori(before, below)

    def products(
        self, heads: list[ir.Value], column: ir.Value, at: ir.Value, limit: ir.Value | None
    ) -> list[ir.Value]:
        """The products by all bits of keys; memory is asked for the values meanwhile."""
        place = arith.addi(column, at)
        self.values.prefetch(place, self.ahead)
        return self.by_keys.of(heads, place)

    def add_values(self, column: ir.Value, count: ir.Value) -> None:
        """The values by their weights, some heads and some channels at a time."""
        for heads in self.groups():
            panels = Panels(True, count, PANEL, lambda at: at, partial(arith.addi, column))
            self.add_panels(panels, heads, partial(self.ask_for_next_keys, column, panels))
            scf.yield_([])

    def add_panels(self, panels: Panels, heads: list[ir.Value], ask: Ask) -> None:
        """The values of `panels` for some heads, what was before being shrunk.

        Of the loops over them, the first of some cells asks for what these have later.
        """
        most = _SUMS[self.lanes] // len(heads)
        cells = self.units.type.shape[1]
        for own, _ in _equal_runs(cells, [0], most):
            self._round_weights(panels, heads, own)
        lanes = range(0, UPPER.channels, self.lanes)
        for own, runs in _equal_runs(cells, lanes, most // (2 * len(panels.digits))):
            for number, run in enumerate(runs):
                sums = self._sums(panels, heads, run, partial(ask, [] if number else own))
                self._add_sums(sums, heads, run, panels.whole)

    def ask_for_next_keys(
        self, column: ir.Value, panels: Panels, cells: Sequence[ir.Value], turn: ir.Value
    ) -> None:
        """In a turn of loops over `panels`, for a panel of the block after that of `column`."""
        place = arith.addi(column, panels.place(turn))
        self.keys.prefetch(self.a_block_after(place), self.ahead, cells)

    def _round_weights(
        self, panels: Panels, heads: list[ir.Value], cells: Sequence[ir.Value]
    ) -> None:
        """Makes digits of the weights by the scales of the values in `cells`."""
        inverses = [each for cell in cells for each in self._units(panels, heads, cell)]
        places = [[head, cell] for cell in cells for head in heads]
        loop = panels.each([splat(0, self.words)] * len(places))
        with ir.InsertionPoint(loop.body):
            turn, totals = loop.induction_variable, list(loop.inner_iter_args)
            for at, weights in self._weights_of_turn(panels, turn, heads, cells):
                own = arith.remui(at, index(self.at_once))
                for number, weight in enumerate(weights):
                    half = splat(0.5, floats(self.lanes))
                    nearest = multiply_add(weight, inverses[number], half)
                    share = arith.fptosi(self.words, nearest)
                    self._store_digits(share, panels.digits, places[number], own)
                    totals[number] = arith.addi(totals[number], share)
            scf.yield_(totals)
        if panels.whole:
            return
        for place, total_ in zip(places, loop.results, strict=True):
            sum_ = vector.reduction(self.words.element_type, vector.CombiningKind.ADD, total_)
            memref.store(offset(sum_), self.offsets, place)

    def _store_digits(
        self, rest: ir.Value, digits: range, place: list[ir.Value], at: ir.Value
    ) -> None:
        stored = ir.VectorType.get([self.lanes], self.shares.type.element_type)
        for digit in reversed(digits):
            own = arith.andi(rest, splat(2**BITS - 1, self.words)) if digit else rest
            rest = arith.shrui(rest, splat(BITS, self.words))
            vector.store(arith.trunci(stored, own), self.shares, [*place, index(digit), at])

    def _weights_of_turn(
        self, panels: Panels, turn: ir.Value, heads: list[ir.Value], cells: Sequence[ir.Value]
    ) -> Iterator[tuple[ir.Value, list[ir.Value]]]:
        """Where weights of a turn are, and vectors of them as `_scaled_weights` gives them."""
        first, column = panels.at(turn), panels.column(turn)
        for lane in range(0, PANEL, self.lanes):
            at, place = (arith.addi(each, index(lane)) for each in (first, column))
            yield at, self._scaled_weights(heads, cells, at, place)

    def _scaled_weights(
        self, heads: list[ir.Value], cells: Sequence[ir.Value], at: ir.Value, place: ir.Value
    ) -> list[ir.Value]:
        """For each cell, each head's weights from `at` on by the scales of their values there.

        These are those from column `place` on. The products are 0 for columns that do not count.
        """
        weights = [load(self.scores, [head, at], self.lanes) for head in heads]
        scales = (self.counted_scales(place, cell) for cell in cells)
        return [arith.mulf(weight, scale) for scale in scales for weight in weights]

    def counted_scales(self, place: ir.Value, cell: ir.Value) -> ir.Value:
        """Scales of the values of the columns from `place` on, 0 for those that do not count."""
        scales = self.values.scales(place, cell, self.lanes)
        return arith.select(self.asked_for(place), scales, splat(0.0, floats(self.lanes)))

    def _units(self, panels: Panels, heads: list[ir.Value], cell: ir.Value) -> list[ir.Value]:
        """Stores what 1 in the digits is worth, and gives for each head a vector of its inverse."""
        inverses, most = [], self.shares_at_most(panels, heads, cell)
        for head, share in zip(heads, most, strict=True):
            largest = maximum(share, splat(LEAST_DIVISOR, floats(self.lanes)))
            unit = arith.mulf(largest, splat(1 / panels.most, floats(self.lanes)))
            memref.store(vector.extract(unit, [], [0]), self.units, [head, cell])
            inverses.append(arith.divf(splat(panels.most, floats(self.lanes)), largest))
        return inverses

    def shares_at_most(
        self, panels: Panels, heads: list[ir.Value], cell: ir.Value
    ) -> list[ir.Value]:
        """For each head what no weight of `panels` by its scale is above, in every lane.

        Here that is the most of them, which does not depend on what else is in the workgroup.
        """
        loop = panels.each([splat(0.0, floats(self.lanes))] * len(heads))
        with ir.InsertionPoint(loop.body):
            turn, largest = loop.induction_variable, list(loop.inner_iter_args)
            for _, weights in self._weights_of_turn(panels, turn, heads, [cell]):
                largest = list(map(maximum, largest, weights))
            scf.yield_(largest)
        return [highest(each) for each in loop.results]

    def _sums(
        self,
        panels: Panels,
        heads: list[ir.Value],
        run: Run,
        ask: Callable[[ir.Value], None],
    ) -> list[ir.Value]:
        """For each head and each vector of channels of `run` the values by their weights."""
        none = [splat(0, self.words)] * (2 * len(heads) * len(run) * len(panels.digits))
        loop = panels.each(none)
        with ir.InsertionPoint(loop.body):
            ask(loop.induction_variable)
            sums = list(loop.inner_iter_args)
            scf.yield_(self._added(sums, panels, heads, run, loop.induction_variable))
        digits = len(panels.digits)
        starts = range(0, len(none), digits)
        return [joined(loop.results[start : start + digits]) for start in starts]

    def _added(
        self,
        sums: list[ir.Value],
        panels: Panels,
        heads: list[ir.Value],
        run: Run,
        turn: ir.Value,
    ) -> list[ir.Value]:
        """`sums` with the values of the panel of this `turn`."""
        own = arith.remui(panels.at(turn), index(self.at_once))
        column = panels.column(turn)
        begins = [self.values.panel(column, cell) for cell, _ in run]
        for words in EACH_WORD if panels.whole else halves_at_once(self.multiply):
            rows = [
                [
                    value
                    for begin, (_, lane) in zip(begins, run, strict=True)
                    for value in self._read_values(begin, word, lane, panels.whole)
                ]
                for word in words
            ]
            starts = [arith.addi(own, index(word * WORD)) for word in words]
            before, sums = iter(sums), []
            for head, (cell, *values) in product(heads, zip(_cells(run), *rows, strict=True)):
                for digit in panels.digits:
                    place = [head, cell, index(digit)]
                    shares = [word_in_lanes(self.shares, [*place, i], self.lanes) for i in starts]
                    sums.append(self._add_weighed(next(before), values, shares, panels.whole))
        return sums

    def _add_weighed(
        self, sum_: ir.Value, values: Sequence[ir.Value], shares: list[ir.Value], whole: bool
    ) -> ir.Value:
        """`sum_` with the products of words of values and of digits of weights.

        Digits and halves have no sign: either may be what an instruction wants to have none.
        """
        unsigned, others = (shares, values) if whole else (values, shares)
        most = 2**BITS - 1 if whole else LARGEST_HALF
        return self.multiply(sum_, list(zip(unsigned, others, strict=True)), False, most)

    def _read_values(self, panel: ir.Value, word: int, lane: int, whole: bool) -> list[ir.Value]:
        if whole:
            return integers_of(self.values, panel, word, lane, self.lanes)
        return halves_of(self.values, UPPER, panel, word, lane, self.lanes)

    def _add_sums(self, sums: list[ir.Value], heads: list[ir.Value], run: Run, whole: bool) -> None:
        """Adds to the sums of a head so far, which are of another peak."""
        channels = zip(_cells(run), _channels(run), strict=True)
        for (head, (cell, channel)), sum_ in zip(product(heads, channels), sums, strict=True):
            place = [head, channel]
            if not whole:
                own = vector.broadcast(sum_.type, memref.load(self.offsets, [head, cell]))
                sum_ = arith.addi(raised(sum_), own)
            factor = memref.load(self.shrinks, [head, index(0)])
            before = load(self.sums, place, self.lanes)
            before = arith.mulf(before, vector.broadcast(before.type, factor))
            unit = memref.load(self.units, [head, cell])
            number = arith.sitofp(before.type, sum_)
            # Not `multiply_add`: of two products LLVM adds now one and now the other unrounded.
            after = vector.fma(number, vector.broadcast(before.type, unit), before)
            vector.store(after, self.sums, place)


def _equal_runs(
    cells: int, lanes: Sequence[int], most: int
) -> Iterator[tuple[list[ir.Value], list[Run]]]:
    """A loop over so many cells: some of them, and runs of their words, which begin with `lanes`.

    In each run `most` words or fewer, but one at least. In a turn come as few cells as whole runs
    have.
    """
    wide = divisor(cells * len(lanes), max(1, most))
    together = lcm(wide, len(lanes)) // len(lanes)
    for first in scf.for_(index(0), index(cells), index(together)):
        own = [arith.addi(first, index(number)) for number in range(together)]
        words = list(product(own, lanes))
        yield own, [words[at : at + wide] for at in range(0, len(words), wide)]
        scf.yield_([])


def _cells(run: Run) -> list[ir.Value]:
    """The cell of each vector of values of `run`."""
    return [cell for cell, _ in run for _ in UPPER.starts]


def _channels(run: Run) -> list[ir.Value]:
    """The first channel of each of these."""
    return [
        arith.addi(arith.muli(cell, index(Q8_0.values)), index(start + lane))
        for cell, lane in run
        for start in UPPER.starts
    ]
