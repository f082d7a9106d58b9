"""Attention over caches of floats: products in lanes of channels, read once and for all heads."""

from torch_mlir import ir
from torch_mlir.dialects import arith, memref, scf, vector

from llmc.dialects.divisor import divisor
from llmc.dialects.index_notation import index
from llmc.pipelines.kernels.kernel import multiply_add
from llmc.pipelines.kernels.online_softmax import Caches, OnlineSoftmax, buffer
from llmc.pipelines.kernels.splat import splat
from llmc.pipelines.kernels.vectors import floats, join_quads, load, quad, width_of
from llmc.pipelines.targets.cpu import CACHE_LINE

# Columns whose scores are summed together, as `quad` wants them.
_COLUMNS = 4
# Vectors of sums that stay in registers.
_SUMS = 4


class FloatSoftmax(OnlineSoftmax):
    """`OnlineSoftmax` over keys and values of float32, or of a narrower type that is widened."""

    def __init__(
        self, heads: int, caches: Caches, lanes: int, softcap: float, together: int
    ) -> None:
        super().__init__(heads, caches, lanes, softcap, together)
        # In memory, or LLVM moves all that makes them to where they are joined, and spills.
        width = max(width_of(self.lanes, caches.channels), _COLUMNS)
        self.quads = buffer(self.together, self.lanes // _COLUMNS, width)

    def ask(self, begin: ir.Value, end: ir.Value) -> None:
        """The keys of the first block."""
        soon = arith.minsi(end, arith.addi(begin, index(self.block)))
        for column in scf.for_(begin, soon, index(1)):
            self._prefetch(self.caches.keys, column)
            scf.yield_([])

    def runs(self, count: ir.Value) -> list[tuple[ir.Value, ir.Value, ir.Value | None]]:
        """Whole groups, which are read as they lie, and the rest."""
        whole = arith.muli(arith.divui(count, index(self.lanes)), index(self.lanes))
        return [(index(0), whole, None), (whole, count, count)]

    def seen(
        self, head: ir.Value, column: ir.Value, at: ir.Value, limit: ir.Value | None
    ) -> ir.Value | None:
        """Columns below the limit."""
        return None if limit is None else self.lanes_below(arith.subi(limit, at))

    def products(
        self, heads: list[ir.Value], column: ir.Value, at: ir.Value, limit: ir.Value | None
    ) -> list[ir.Value]:
        """The products, four columns at a time."""
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
            scores.append(join_quads(quads))
        return scores

    def _products(self, heads: list[ir.Value], columns: list[ir.Value]) -> list[list[ir.Value]]:
        """For each head and column a vector whose lanes add up to their product."""
        channels, (keys, where) = self.caches.channels, (self.caches.keys, self.caches.head)
        lanes = width_of(self.lanes, channels)
        zeros = [splat(0.0, floats(lanes))] * (len(heads) * len(columns))
        loop = scf.ForOp(index(0), index(channels), index(lanes), zeros)
        with ir.InsertionPoint(loop.body):
            d, sums = loop.induction_variable, iter(loop.inner_iter_args)
            read = [load(keys, [*where, column, d], lanes) for column in columns]
            queries = [load(self.query, [head, d], lanes) for head in heads]
            scf.yield_([multiply_add(q, key, next(sums)) for q in queries for key in read])
        results = list(loop.results)
        return [results[i : i + len(columns)] for i in range(0, len(results), len(columns))]

    def _prefetch(self, cache: ir.Value, column: ir.Value) -> None:
        """Asks memory for a column that is soon read, for caches are read but once for a token.

        The second cache shall have it: a block would leave no room in the first.
        """
        *_, channels = cache.type.shape
        line = 8 * CACHE_LINE // cache.type.element_type.width
        for d in range(0, channels, line):
            where = [*self.caches.head, column, index(d)]
            memref.prefetch(cache, where, False, 2, True)

    def add_values(self, column: ir.Value, count: ir.Value) -> None:
        """The values by their weights, some heads at a time."""
        channels = self.caches.value_channels
        lanes = width_of(self.lanes, channels)
        wide = divisor(channels // lanes, _SUMS)
        for heads in self.groups():
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
            self._prefetch(self.caches.keys, self.a_block_after(where[-1]))
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
