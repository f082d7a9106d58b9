"""Attention over caches of cells of 8 bits: products of bytes in integers.

Lanes are columns where keys are multiplied, and channels where values are added up, as they lie in
cells. Queries are transformed and rounded to 8 bits as keys are. Weights, of which many small ones
count as much as a large one, become integers of two digits of 7 bits, multiplied one by one: beside
the rounding of values to 8 bits, theirs is lost.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import ClassVar, TypeAlias

from torch_mlir import ir
from torch_mlir.dialects import arith, math, memref, scf, vector

from llmc.dialects.block_panels import WORD
from llmc.dialects.blocks import Q8_0
from llmc.dialects.cache_cells import KEYS, LOWER, PANEL, PLANES, UPPER, VALUES, Plane
from llmc.dialects.index_notation import constant, index
from llmc.pipelines.divisor import divisor
from llmc.pipelines.kernels.cell_panels import CellPanels
from llmc.pipelines.kernels.digits import BITS, DIGITS, Panels, joined
from llmc.pipelines.kernels.kernel import multiply_add
from llmc.pipelines.kernels.online_softmax import HEADS, Caches, OnlineSoftmax, buffer
from llmc.pipelines.kernels.vectors import (
    floats,
    highest,
    load,
    maximum,
    read_bytes,
    splat,
    walsh_hadamard,
)
from llmc.pipelines.schedules.byte_instructions import INSTRUCTIONS, vpdpbusd
from llmc.pipelines.schedules.byte_instructions import splat as integers

# What the largest of a block's queries becomes.
_QUERY = 127.0
# What a number is taken for at least, so that it divides.
_LEAST = 1e-30
# Sums of 32 bits of instructions that have as many whatever the register.
_LANES = {"vpmaddubsw": 8, "sdot": 4, "smmla": 4}
# Vectors of sums that stay in registers, of which there are 32 if they are the widest.
_SUMS = {16: 24, 8: 12, 4: 12}
# Bytes of lower halves that are not read: 7 and 8 by turns, for their mean is 7.5.
_MIDDLE = 0x77887788

Run: TypeAlias = list[tuple[int, int]]
"""Cells, and lanes of values that are the first of as many words as a register has."""


class ByteSoftmax(OnlineSoftmax):
    """`OnlineSoftmax` over keys and values in cells, as `cache_rows` says, by an `instruction`.

    Buffers of the queries: `rounded [heads, cells, 32]`, of which 1 is worth `steps [heads,
    cells]`, and `starts [heads, cells]` for the sums of products. Of a block of columns: digits of
    weights by scales `shares [heads, cells, 2, columns]`, of which 1 is worth `units [heads,
    cells]`: what is beside a head in a workgroup has no part in how its numbers are rounded.
    """

    ahead: ClassVar[tuple[Plane, ...]] = PLANES
    """Of keys and values, what memory is asked for before it is known which columns matter."""

    def __init__(
        self, heads: int, caches: Caches, lanes: int, softcap: float, instruction: str
    ) -> None:
        super().__init__(heads, caches, _LANES.get(instruction, lanes), softcap)
        self.multiply = INSTRUCTIONS[instruction]
        self.signed = self.multiply is not vpdpbusd  # which wants unsigned bytes
        self.keys = CellPanels(KEYS, caches.keys, caches.head)
        self.values = CellPanels(VALUES, caches.values, caches.head)
        i32, byte = (ir.IntegerType.get_signless(bits) for bits in (32, 8))
        self.words = ir.VectorType.get([self.lanes], i32)
        self.bytes_of_words = ir.VectorType.get([WORD * self.lanes], byte)
        in_key, in_value = caches.channels // Q8_0.values, caches.value_channels // Q8_0.values
        self.rounded = buffer(heads, in_key, Q8_0.values, element=byte)
        self.steps, self.starts = buffer(heads, in_key), buffer(heads, in_key, element=i32)
        self.shares = buffer(heads, in_value, DIGITS, self.block, element=byte)
        self.units = buffer(heads, in_value)

    @classmethod
    def bytes(cls, heads: int, channels: int, value_channels: int, lanes: int) -> int:
        """What the buffers take."""
        in_key, in_value = channels // Q8_0.values, value_channels // Q8_0.values
        of_head = in_key * (Q8_0.values + 8) + in_value * (DIGITS * cls.block + 4)
        floats_ = super().bytes(heads, channels, value_channels, lanes)
        return floats_ + heads * of_head

    def attend(self, begin: ir.Value, end: ir.Value) -> None:
        """Takes in columns `begin` to `end - 1`, if there are any, by whole panels."""
        first, last = self.panels(begin, end)
        soon = arith.minsi(last, arith.addi(first, index(self.block)))
        for column in scf.for_(first, soon, index(PANEL)):
            self.keys.prefetch(column, self.ahead)
            scf.yield_([])
        for head in scf.for_(index(0), index(self.heads)):
            for block in scf.for_(index(0), index(self.steps.type.shape[1])):
                self._round_query(head, block)
                scf.yield_([])
            scf.yield_([])
        self.begin_columns()
        self.begin, self.end = begin, end
        super().attend(first, last)

    def begin_columns(self) -> None:
        """Nothing is to be prepared, queries being rounded."""

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

    def begin_block(self, column: ir.Value, count: ir.Value) -> None:
        """Nothing is to be prepared."""

    def products(
        self, heads: list[ir.Value], column: ir.Value, at: ir.Value, limit: ir.Value | None
    ) -> list[ir.Value]:
        """The products by all bits of keys; memory is asked for the values meanwhile."""
        place = arith.addi(column, at)
        self.values.prefetch(place, self.ahead)
        return self.products_by(heads, place, whole=True)

    def products_by(self, heads: list[ir.Value], place: ir.Value, whole: bool) -> list[ir.Value]:
        """The products with keys from column `place` on, cell by cell for all heads.

        If not `whole`, lower halves of keys are not read, but guessed.
        """
        zeros = [splat(0.0, self.lanes)] * len(heads)
        # A loop, or LLVM would keep the words of all queries on the stack, each in every lane.
        loop = scf.ForOp(index(0), index(self.steps.type.shape[1]), index(1), zeros)
        with ir.InsertionPoint(loop.body):
            cell, sums = loop.induction_variable, loop.inner_iter_args
            scales = self._scales(self.keys, place, cell)
            products = self._integer_products(heads, place, cell, whole)
            steps = (memref.load(self.steps, [head, cell]) for head in heads)
            scf.yield_(
                [
                    multiply_add(
                        arith.sitofp(scales.type, product_),
                        arith.mulf(scales, vector.broadcast(scales.type, step)),
                        sum_,
                    )
                    for product_, step, sum_ in zip(products, steps, sums, strict=True)
                ]
            )
        return list(loop.results)

    def add_values(self, column: ir.Value, count: ir.Value) -> None:
        """The values by their weights, some heads and some channels at a time.

        Memory gives the keys of the next block meanwhile: every loop over this one, of which each
        cell and each run of chunks has one, asks for as many lines.
        """
        together = divisor(self.heads, HEADS)
        for first in scf.for_(index(0), index(self.heads), index(together)):
            heads = [arith.addi(first, index(i)) for i in range(together)]
            some, *others = self.panels_of(heads, column, count)
            self._add_panels(some, heads, column, shrink=True)
            for panels in others:
                any_ = arith.cmpi(arith.CmpIPredicate.ne, panels.end, index(0))
                with ir.InsertionPoint(scf.IfOp(any_).then_block):
                    self._add_panels(panels, heads, column, shrink=False)
                    scf.yield_([])
            scf.yield_([])

    def _add_panels(
        self, panels: Panels, heads: list[ir.Value], column: ir.Value, shrink: bool
    ) -> None:
        """The values of `panels` for some heads, what was before being shrunk if that is said."""
        _, cells = self.units.type.shape
        words = [
            (cell, lane) for cell in range(cells) for lane in range(0, UPPER.channels, self.lanes)
        ]
        wide = divisor(len(words), _SUMS[self.lanes] // (2 * DIGITS * len(heads)))
        runs = [words[first : first + wide] for first in range(0, len(words), wide)]
        ask = partial(self._prefetch_next_keys, parts=cells + len(runs))
        for cell in range(cells):
            self._round_weights(panels, heads, cell, column, partial(ask, part=cell))
        for place, run in enumerate(runs):
            sums = self._sums(panels, heads, run, column, partial(ask, part=cells + place))
            self._add_sums(sums, heads, run, shrink)

    def panels_of(
        self, heads: list[ir.Value], column: ir.Value, count: ir.Value
    ) -> Sequence[Panels]:
        """The panels of the block of `column`, by how their values are added up for `heads`."""
        return [Panels(True, count, PANEL, lambda at: at)]

    def _prefetch_next_keys(self, place: ir.Value, part: int, parts: int) -> None:
        """Asks for a part of the keys of the panel a block after that of column `place`."""
        self.keys.prefetch(arith.addi(place, index(self.block)), self.ahead, part, parts)

    def _round_query(self, head: ir.Value, block: ir.Value) -> None:
        """Makes integers of 32 channels."""
        f32, i32, i8 = ir.F32Type.get(), self.words.element_type, self.rounded.type.element_type
        at = [head, arith.muli(block, index(Q8_0.values))]
        (numbers,) = walsh_hadamard([vector.load(floats(Q8_0.values), self.query, at)])
        largest = arith.maximumf(
            vector.reduction(f32, vector.CombiningKind.MAXIMUMF, math.absf(numbers)),
            constant(_LEAST, f32),
        )
        memref.store(arith.divf(largest, constant(_QUERY, f32)), self.steps, [head, block])
        inverse = arith.divf(constant(_QUERY, f32), largest)
        nearest = math.roundeven(arith.mulf(numbers, vector.broadcast(numbers.type, inverse)))
        whole = arith.fptosi(ir.VectorType.get([Q8_0.values], i32), nearest)
        bytes_ = arith.trunci(ir.VectorType.get([Q8_0.values], i8), whole)
        vector.store(bytes_, self.rounded, [head, block, index(0)])
        sum_ = vector.reduction(i32, vector.CombiningKind.ADD, whole)
        # Keys that must be unsigned have 128 too much.
        start = arith.muli(sum_, constant(0 if self.signed else -128, i32))
        memref.store(start, self.starts, [head, block])

    def _scales(self, panels: CellPanels, column: ir.Value, cell: ir.Value) -> ir.Value:
        """Scales of the columns from `column` on."""
        both = panels.scales(column, cell, self.lanes)
        halves = vector.bitcast(ir.VectorType.get([self.lanes], ir.F16Type.get()), both)
        return arith.extf(floats(self.lanes), halves)

    def _integer_products(
        self, heads: list[ir.Value], column: ir.Value, cell: ir.Value, whole: bool
    ) -> list[ir.Value]:
        """For each head the products of its queries and of a cell's keys from `column` on."""
        starts = (memref.load(self.starts, [head, cell]) for head in heads)
        sums = [vector.broadcast(self.words, start) for start in starts]
        most = 128 if self.signed else 255
        within = arith.remui(column, index(PANEL))
        panel = arith.addi(self.keys.panel(column, cell), arith.muli(within, index(WORD)))
        for word in range(UPPER.channels // WORD):
            both = self._integers(self.keys, panel, word, 0, whole)
            for start, key in zip(UPPER.starts, both, strict=True):
                if not self.signed:
                    key = arith.xori(key, integers(-128, key.type))
                for number, head in enumerate(heads):
                    query = self._word(self.rounded, [head, cell, index(start + WORD * word)])
                    sums[number] = self.multiply(sums[number], [(key, query)], self.signed, most)
        return sums

    def _round_weights(
        self,
        panels: Panels,
        heads: list[ir.Value],
        cell: int,
        column: ir.Value,
        ask: Callable[[ir.Value], None],
    ) -> None:
        """Makes digits of the weights by the scales of values."""
        inverses = self._units(panels, heads, cell, column)
        loop = panels.each([])
        with ir.InsertionPoint(loop.body):
            first = panels.first(loop.induction_variable)
            ask(arith.addi(column, first))
            for lane in range(0, PANEL, self.lanes):
                at = arith.addi(first, index(lane))
                weights = self._scaled_weights(heads, cell, column, at)
                for head, weight, inverse in zip(heads, weights, inverses, strict=True):
                    nearest = multiply_add(weight, inverse, splat(0.5, self.lanes))
                    self._store_digits(nearest, panels.digits, [head, index(cell)], at)
            scf.yield_([])

    def _store_digits(
        self, weight: ir.Value, digits: range, place: list[ir.Value], at: ir.Value
    ) -> None:
        stored = ir.VectorType.get([self.lanes], self.shares.type.element_type)
        rest = arith.fptosi(self.words, weight)
        for digit in reversed(digits):
            own = arith.andi(rest, integers(2**BITS - 1, self.words)) if digit else rest
            rest = arith.shrui(rest, integers(BITS, self.words))
            vector.store(arith.trunci(stored, own), self.shares, [*place, index(digit), at])

    def _scaled_weights(
        self, heads: list[ir.Value], cell: int, column: ir.Value, at: ir.Value
    ) -> list[ir.Value]:
        """Weights of the columns from `column + at` on by their values' scales.

        They are 0 for columns that do not count.
        """
        scales = self.counted_scales(arith.addi(column, at), cell)
        weights = (load(self.scores, [head, at], self.lanes) for head in heads)
        return [arith.mulf(weight, scales) for weight in weights]

    def counted_scales(self, place: ir.Value, cell: int) -> ir.Value:
        """Scales of the values of the columns from `place` on, 0 for those that do not count."""
        scales = self._scales(self.values, place, index(cell))
        return arith.select(self.asked_for(place), scales, splat(0.0, self.lanes))

    def _units(
        self, panels: Panels, heads: list[ir.Value], cell: int, column: ir.Value
    ) -> list[ir.Value]:
        """Stores what 1 in the digits is worth, and gives for each head a vector of its inverse."""
        inverses, most = [], self.shares_at_most(panels, heads, cell, column)
        for head, share in zip(heads, most, strict=True):
            largest = maximum(share, splat(_LEAST, self.lanes))
            unit = arith.mulf(largest, splat(1 / panels.most, self.lanes))
            memref.store(vector.extract(unit, [], [0]), self.units, [head, index(cell)])
            inverses.append(arith.divf(splat(panels.most, self.lanes), largest))
        return inverses

    def shares_at_most(
        self, panels: Panels, heads: list[ir.Value], cell: int, column: ir.Value
    ) -> list[ir.Value]:
        """For each head what no weight of `panels` by its scale is above, in every lane.

        Here that is the most of them, which does not depend on what else is in the workgroup.
        """
        loop = panels.each([splat(0.0, self.lanes)] * len(heads))
        with ir.InsertionPoint(loop.body):
            first, largest = panels.first(loop.induction_variable), list(loop.inner_iter_args)
            for lane in range(0, PANEL, self.lanes):
                weights = self._scaled_weights(heads, cell, column, arith.addi(first, index(lane)))
                largest = list(map(maximum, largest, weights))
            scf.yield_(largest)
        return [highest(each) for each in loop.results]

    def _sums(
        self,
        panels: Panels,
        heads: list[ir.Value],
        run: Run,
        column: ir.Value,
        ask: Callable[[ir.Value], None],
    ) -> list[ir.Value]:
        """For each head and each vector of channels of `run` the values by their weights."""
        none = [integers(0, self.words)] * (2 * len(heads) * len(run) * len(panels.digits))
        loop = panels.each(none)
        with ir.InsertionPoint(loop.body):
            at = panels.first(loop.induction_variable)
            ask(arith.addi(column, at))
            scf.yield_(self._added(list(loop.inner_iter_args), panels, heads, run, column, at))
        digits = len(panels.digits)
        starts = range(0, len(none), digits)
        return [joined(loop.results[start : start + digits]) for start in starts]

    def _added(
        self,
        sums: list[ir.Value],
        panels: Panels,
        heads: list[ir.Value],
        run: Run,
        column: ir.Value,
        at: ir.Value,
    ) -> list[ir.Value]:
        """`sums` with the values of the panel of `column + at`."""
        begins = [self.values.panel(arith.addi(column, at), index(cell)) for cell, _ in run]
        for word in range(PANEL // WORD):
            values = [
                value
                for begin, (_, lane) in zip(begins, run, strict=True)
                for value in self._integers(self.values, begin, word, lane, panels.whole)
            ]
            share = arith.addi(at, index(word * WORD))
            before, sums = iter(sums), []
            for head, (channel, value) in product(heads, zip(_channels(run), values, strict=True)):
                for digit in panels.digits:
                    place = [head, index(channel // Q8_0.values), index(digit), share]
                    pair = (self._word(self.shares, place), value)
                    sums.append(self.multiply(next(before), [pair], False, 2**BITS - 1))
        return sums

    def _integers(
        self, cells: CellPanels, panel: ir.Value, word: int, lane: int, whole: bool
    ) -> tuple[ir.Value, ir.Value]:
        """Words number `word` of the lanes from `lane` on, and of the same 16 channels further.

        If not `whole`, lower halves are not read, but guessed.
        """
        upper = cells.read(panel, UPPER, word, lane, self.lanes)
        type_, four = upper.type, integers(4, upper.type)
        lower = (
            cells.read(panel, LOWER, word, lane, self.lanes)
            if whole
            else vector.bitcast(type_, integers(_MIDDLE, self.words))
        )
        first = arith.ori(arith.shli(upper, four), arith.andi(lower, integers(15, type_)))
        second = arith.ori(arith.andi(upper, integers(-16, type_)), arith.shrui(lower, four))
        return first, second

    def _add_sums(
        self, sums: list[ir.Value], heads: list[ir.Value], run: Run, shrink: bool
    ) -> None:
        """Adds to the sums of a head so far, which with `shrink` are of another peak."""
        for (head, channel), sum_ in zip(product(heads, _channels(run)), sums, strict=True):
            place = [head, index(channel)]
            before = load(self.sums, place, self.lanes)
            if shrink:
                factor = memref.load(self.shrinks, [head, index(0)])
                before = arith.mulf(before, vector.broadcast(before.type, factor))
            unit = memref.load(self.units, [head, index(channel // Q8_0.values)])
            number = arith.sitofp(before.type, sum_)
            # Not `multiply_add`: of two products LLVM adds now one and now the other unrounded.
            after = vector.fma(number, vector.broadcast(before.type, unit), before)
            vector.store(after, self.sums, place)

    def _word(self, bytes_: ir.Value, where: list[ir.Value]) -> ir.Value:
        """Four of `bytes_`, in every lane."""
        one = ir.VectorType.get([1], self.words.element_type)
        word = vector.bitcast(one, read_bytes(bytes_, where, WORD))
        words = vector.broadcast(self.words, vector.extract(word, [], [0]))
        return vector.bitcast(self.bytes_of_words, words)


def _channels(run: Run) -> list[int]:
    """The first channel of each vector of values of `run`."""
    return [cell * Q8_0.values + start + lane for cell, lane in run for start in UPPER.starts]
