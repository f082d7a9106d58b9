"""Products of queries with keys in cells: of bytes, in integers; or of halves of them."""

from collections.abc import Callable
from functools import partial

from torch_mlir import ir
from torch_mlir.dialects import arith, math, memref, scf, vector
from torch_mlir.extras import types as T

from llmc.dialects.block_panels import WORD
from llmc.dialects.blocks import Q8_0
from llmc.dialects.cache_cells import LOWER, PANEL, PLANES, UPPER, Plane
from llmc.dialects.index_notation import constant, index
from llmc.pipelines.kernels.byte_instructions import Instructions, vpdpbusd
from llmc.pipelines.kernels.cell_panels import CellPanels
from llmc.pipelines.kernels.cell_words import (
    EACH_WORD,
    LARGEST_HALF,
    OFFSET,
    adds_in_16_bits,
    halves_at_once,
    halves_of,
    integers_of,
    raised,
    starts,
    word_in_lanes,
)
from llmc.pipelines.kernels.kernel import multiply_add
from llmc.pipelines.kernels.online_softmax import buffer
from llmc.pipelines.kernels.splat import splat
from llmc.pipelines.kernels.vectors import (
    LEAST_DIVISOR,
    floats,
    highest,
    maximum,
    nearest_integers,
    walsh_hadamard,
)

# What the largest of a block's queries becomes.
_QUERY = 127.0
# The number of what sums of products with integers start from, after those with halves.
_INTEGERS = len(PLANES)


class KeyProducts:
    """Queries `[heads, D]`, transformed and rounded as `keys` are, that `multiply` these.

    Buffers `rounded [heads, cells, 32]`; `steps [2, heads, cells]`, what 1 in a product with the
    upper halves of keys is worth, or with the lower ones, or with all bits; and `starts [3, heads,
    cells]`, which sums of such products start from.
    """

    def __init__(
        self, query: ir.Value, keys: CellPanels, lanes: int, multiply: Instructions
    ) -> None:
        self._query, self._keys, self._lanes, self._multiply = query, keys, lanes, multiply
        self._by_halves = adds_in_16_bits(multiply)
        # Others want unsigned ones.
        self._signed = multiply is not vpdpbusd and not self._by_halves
        heads, channels = query.type.shape
        self._cells = channels // Q8_0.values
        i32, byte = T.i32(), T.i8()
        self._words = ir.VectorType.get([lanes], i32)
        self._rounded = buffer(heads, self._cells, Q8_0.values, element=byte)
        self._steps = buffer(len(PLANES), heads, self._cells)
        self._starts = buffer(_INTEGERS + 1, heads, self._cells, element=i32)

    @staticmethod
    def bytes(heads: int, channels: int) -> int:
        """What the buffers take."""
        return heads * channels // Q8_0.values * (Q8_0.values + 20)

    def round_queries(self) -> None:
        """Makes integers of the queries."""
        heads, _ = self._query.type.shape
        for head in scf.for_(index(0), index(heads)):
            for block in scf.for_(index(0), index(self._cells)):
                self._round(head, block)
                scf.yield_([])
            scf.yield_([])

    def of(self, heads: list[ir.Value], column: ir.Value) -> list[ir.Value]:
        """The products with keys from `column` on, float32."""
        return self._in_all_cells(heads, column, LOWER, self._with_all_bits)

    def of_halves(self, heads: list[ir.Value], column: ir.Value, plane: Plane) -> list[ir.Value]:
        """As `of`, of upper halves alone, lower ones being taken for their mean; or what is left.

        Both add up to the products.
        """
        return self._in_all_cells(heads, column, plane, partial(self._with_halves, plane))

    def _in_all_cells(
        self,
        heads: list[ir.Value],
        column: ir.Value,
        plane: Plane,
        multiply: Callable[[list[list[ir.Value]], ir.Value], list[ir.Value]],
    ) -> list[ir.Value]:
        """Adds up what `multiply` gives cell by cell for all heads, 1 being worth as in `plane`.

        It is given the places of queries and where the panel begins.
        """
        zeros = [splat(0.0, floats(self._lanes))] * len(heads)
        within = arith.muli(arith.remui(column, index(PANEL)), index(WORD))
        # A loop, or LLVM would keep the words of all queries on the stack, each in every lane.
        loop = scf.ForOp(index(0), index(self._cells), index(1), zeros)
        with ir.InsertionPoint(loop.body):
            cell, sums = loop.induction_variable, loop.inner_iter_args
            scales = self._keys.scales(column, cell, self._lanes)
            queries = [[head, cell] for head in heads]
            products = multiply(queries, arith.addi(self._keys.panel(column, cell), within))
            worth = index(PLANES.index(plane))
            steps = (memref.load(self._steps, [worth, *query]) for query in queries)
            scf.yield_(
                [
                    multiply_add(
                        arith.sitofp(scales.type, product),
                        arith.mulf(scales, vector.broadcast(scales.type, step)),
                        sum_,
                    )
                    for product, step, sum_ in zip(products, steps, sums, strict=True)
                ]
            )
        return list(loop.results)

    def _round(self, head: ir.Value, block: ir.Value) -> None:
        """Makes integers of 32 channels."""
        f32, i32, i8 = T.f32(), self._words.element_type, self._rounded.type.element_type
        at = [head, arith.muli(block, index(Q8_0.values))]
        (numbers,) = walsh_hadamard([vector.load(floats(Q8_0.values), self._query, at)])
        largest = vector.extract(highest(math.absf(numbers)), [], [0])
        largest = maximum(largest, constant(LEAST_DIVISOR, f32))
        step = arith.divf(largest, constant(_QUERY, f32))
        for number, plane in enumerate(PLANES):
            worth = arith.mulf(step, constant(2.0**plane.first, f32))
            memref.store(worth, self._steps, [index(number), head, block])
        inverse = arith.divf(constant(_QUERY, f32), largest)
        whole = nearest_integers(arith.mulf(numbers, vector.broadcast(numbers.type, inverse)))
        bytes_ = arith.trunci(ir.VectorType.get([Q8_0.values], i8), whole)
        vector.store(bytes_, self._rounded, [head, block, index(0)])
        sum_ = vector.reduction(i32, vector.CombiningKind.ADD, whole)
        of_integers = arith.muli(sum_, constant(0 if self._signed else OFFSET, i32))
        for number, start in enumerate((*starts(sum_), of_integers)):
            memref.store(start, self._starts, [index(number), head, block])

    def _start(self, queries: list[list[ir.Value]], number: int) -> list[ir.Value]:
        """In every lane, what sums start from."""
        each = (memref.load(self._starts, [index(number), *query]) for query in queries)
        return [vector.broadcast(self._words, start) for start in each]

    def _with_all_bits(self, queries: list[list[ir.Value]], panel: ir.Value) -> list[ir.Value]:
        if not self._by_halves:
            return self._with_integers(queries, panel)
        upper, lower = (self._with_halves(plane, queries, panel) for plane in PLANES)
        return [arith.addi(raised(high), low) for high, low in zip(upper, lower, strict=True)]

    def _with_integers(self, queries: list[list[ir.Value]], panel: ir.Value) -> list[ir.Value]:
        most, sums = 128 if self._signed else 255, self._start(queries, _INTEGERS)
        for words in EACH_WORD:
            keys = integers_of(self._keys, panel, words.start, 0, self._lanes)
            if not self._signed:
                keys = [arith.xori(key, splat(-128, key.type)) for key in keys]
            sums = self._add(sums, queries, words, keys, self._signed, most)
        return sums

    def _with_halves(
        self, plane: Plane, queries: list[list[ir.Value]], panel: ir.Value
    ) -> list[ir.Value]:
        sums = self._start(queries, PLANES.index(plane))
        for words in halves_at_once(self._multiply):
            keys = [
                key
                for word in words
                for key in halves_of(self._keys, plane, panel, word, 0, self._lanes)
            ]
            sums = self._add(sums, queries, words, keys, False, LARGEST_HALF)
        return sums

    def _add(
        self,
        sums: list[ir.Value],
        queries: list[list[ir.Value]],
        words: range,
        keys: list[ir.Value],
        signed: bool,
        most: int,
    ) -> list[ir.Value]:
        """`sums` with the products of queries and of keys, two vectors of each of `words`."""
        channels, after = [start + WORD * word for word in words for start in UPPER.starts], []
        for sum_, query in zip(sums, queries, strict=True):
            places = [[*query, index(channel)] for channel in channels]
            factors = [word_in_lanes(self._rounded, place, self._lanes) for place in places]
            pairs = list(zip(keys, factors, strict=True))
            after.append(self._multiply(sum_, pairs, signed, most))
        return after
