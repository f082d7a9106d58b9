"""The kernel of `llmc.draw_of_all`: weighs all tokens of a row, then searches the nucleus of it.

For each bit of the least weight that is kept the row is passed over, which stays in the cache. The
one to draw is sought in the sums of parts, and then in one of them: one after the other, numbers
are added up several times as slowly as all at once.
"""

from dataclasses import dataclass
from functools import partial

from torch_mlir import ir
from torch_mlir.dialects import arith, memref, scf, vector
from torch_mlir.extras import types as T

from llmc.dialects.draw_of_all import (
    if_above,
    if_kept,
    is_candidate,
    is_undecided,
    least_of_nucleus,
    other_token,
)
from llmc.dialects.index_notation import constant, index
from llmc.dialects.running_sums import add_up, reach
from llmc.dialects.token_weights import TokenWeights
from llmc.pipelines.kernels.draw import numbers_of, read_options, weights_of_rest
from llmc.pipelines.kernels.first_largest import kernel_of_rows
from llmc.pipelines.kernels.kernel import Kernel
from llmc.pipelines.kernels.online_softmax import buffer
from llmc.pipelines.kernels.row_pieces import each_piece, sum_of_row
from llmc.pipelines.kernels.vectors import floats
from llmc.runtime.abi import CANDIDATES

_PART = 256


def room_for_weights(logits: ir.RankedTensorType) -> ir.RankedTensorType:
    """The type of the second result, for `logits [R, V]`: whole parts of weights, each row's own.

    The first are of candidates, of which there may be fewer; then come those of all tokens.
    """
    rows, vocabulary = logits.shape
    parts = -(-(CANDIDATES + vocabulary) // _PART)
    return ir.RankedTensorType.get([rows, parts * _PART], T.f32())


def draw_of_all(logits: ir.RankedTensorType, lanes: int) -> Kernel:
    """Operands as those of `llmc.draw_of_all`; results `[R]`, and room."""

    def build(
        _numbers: ir.VectorType,
        row: ir.Value,
        _extents: list[ir.Value],
        found: ir.Value,
        logits: ir.Value,
        values: ir.Value,
        tokens: ir.Value,
        random: ir.Value,
        options: ir.Value,
        out: ir.Value,
        room: ir.Value,
    ) -> None:
        token, weighed = memref.load(found, [row]), _Row.of(room, row, lanes)
        drawn = scf.IfOp(is_undecided(token), [token.type], has_else=True)
        with ir.InsertionPoint(drawn.then_block):
            temperature, top_p, min_p = read_options(options)
            count = memref.dim(values, index(1))
            of_row = numbers_of(tokens, row)
            weights = TokenWeights(numbers_of(values, row), of_row, count, temperature)
            weighed.fill(weights, logits)
            least = least_of_nucleus(weighed.sum_above, top_p)
            place = weighed.place_of(memref.load(random, [row]), least, min_p)
            candidates = index(CANDIDATES)
            candidate = of_row(arith.minui(place, weights.last))
            other = arith.index_cast(token.type, other_token(place, candidates))
            scf.yield_([arith.select(is_candidate(place, candidates), candidate, other)])
        with ir.InsertionPoint(drawn.else_block):
            scf.yield_([token])
        memref.store(drawn.results[0], out, [row])

    return kernel_of_rows("draw_of_all", logits, lanes, build)


@dataclass(frozen=True)
class _Row:
    """What all tokens of a row weigh, in vectors of the type `numbers`; `sums` are of parts."""

    room: ir.Value
    row: ir.Value
    numbers: ir.VectorType
    sums: ir.Value

    @staticmethod
    def of(room: ir.Value, row: ir.Value, lanes: int) -> "_Row":
        """A row of `room`. Four registers together fill a part, and no sum waits for the last."""
        (_, columns), numbers = room.type.shape, floats(min(4 * lanes, _PART))
        return _Row(room, row, numbers, buffer(columns // _PART))

    def fill(self, weights: TokenWeights, logits: ir.Value) -> None:
        """Writes what the candidates weigh, then all tokens of `logits [R, V]`; the end is 0."""
        zero = constant(0.0, T.f32())
        for place in scf.for_(index(0), index(CANDIDATES), index(1)):
            weight = weights.of_candidate(arith.minui(place, weights.last))
            is_there = is_candidate(place, weights.count)
            memref.store(arith.select(is_there, weight, zero), self.room, [self.row, place])
            scf.yield_([])
        weigh, (_, vocabulary) = weights_of_rest(weights, logits, self.row), logits.type.shape

        def store(type_: ir.VectorType, at: ir.Value) -> None:
            where = [self.row, arith.addi(at, index(CANDIDATES))]
            vector.store(weigh(type_, at), self.room, where)

        each_piece(vocabulary, self.numbers, store)
        for place in scf.for_(index(CANDIDATES + vocabulary), index(self._columns), index(1)):
            memref.store(zero, self.room, [self.row, place])
            scf.yield_([])

    def sum_above(self, bits: ir.Value) -> ir.Value:
        """The sum of the weights whose bits are above these."""

        def read(type_: ir.VectorType, at: ir.Value) -> ir.Value:
            return if_above(bits, vector.load(type_, self.room, [self.row, at]))

        return sum_of_row(self._columns, self.numbers, read)

    def place_of(self, random: ir.Value, least: ir.Value, min_p: ir.Value) -> ir.Value:
        """Up to which place there is more than `random` of those kept: above `least`, by `min_p`.

        The last of them where rounding leaves no such place.
        """
        parts = self._columns // _PART
        for part in scf.for_(index(0), index(parts), index(1)):
            kept = partial(self._kept, least, min_p, arith.muli(part, index(_PART)))
            memref.store(sum_of_row(_PART, self.numbers, kept), self.sums, [part])
            scf.yield_([])

        def sum_of(part: ir.Value) -> ir.Value:
            return memref.load(self.sums, [part])

        total = add_up(sum_of, index(parts), T.f32())
        wanted = arith.mulf(random, total)
        part, before = reach(sum_of, index(parts), wanted, total)
        begin = arith.muli(part, index(_PART))
        kept = partial(self._kept, least, min_p, begin, T.f32())
        total = add_up(kept, index(_PART), T.f32())
        place, _ = reach(kept, index(_PART), arith.subf(wanted, before), total)
        return arith.addi(begin, place)

    def _kept(
        self, least: ir.Value, min_p: ir.Value, begin: ir.Value, type_: ir.Type, at: ir.Value
    ) -> ir.Value:
        """A weight, or a vector of them, after `begin`: 0 for those that are not kept."""
        where = [self.row, arith.addi(begin, at)]
        if isinstance(type_, ir.VectorType):
            return if_kept(vector.load(type_, self.room, where), least, min_p)
        return if_kept(memref.load(self.room, where), least, min_p)

    @property
    def _columns(self) -> int:
        return self.room.type.shape[1]
