"""The kernel of `llmc.top_k`: a tournament whose winners are taken out one by one.

A row is cut into about as many groups as each has numbers. Whoever wins comes from the group with
the largest number, which then puts forward its next one: the work is that of reading the row once,
and for each winner that of two short rows. Nothing is marked as taken, for the winners come in
order: what is left of a group is what goes after the last of them. (Tournament sort: Knuth, The
Art of Computer Programming, 5.2.3.)
"""

from dataclasses import dataclass
from math import inf, isqrt

from torch_mlir import ir
from torch_mlir.dialects import arith, memref, scf, vector
from torch_mlir.extras import types as T

from llmc.dialects.index_notation import constant, index
from llmc.pipelines.kernels.first_largest import (
    Read,
    first_largest,
    kernel_of_rows,
    only_after,
    places,
    read_row,
)
from llmc.pipelines.kernels.kernel import Kernel
from llmc.pipelines.kernels.splat import splat


def top_k(x: ir.RankedTensorType, lanes: int) -> Kernel:
    """Operand `x [R, N]`, results `values [R, K]` and `places [R, K]`."""

    def build(
        numbers: ir.VectorType,
        row: ir.Value,
        extents: list[ir.Value],
        x: ir.Value,
        values: ir.Value,
        found: ir.Value,
    ) -> None:
        tournament = _Tournament.start(x, row, numbers)
        for rank in scf.for_(index(0), extents[-1]):
            value, place = tournament.take_winner()
            memref.store(value, values, [row, rank])
            memref.store(arith.extsi(found.type.element_type, place), found, [row, rank])
            scf.yield_([])

    return kernel_of_rows("top_k", x, lanes, build)


@dataclass(frozen=True)
class _Tournament:
    """What each group of a row puts forward: `heads [G]`, numbers, and their places `where [G]`.

    G is padded by groups that have nothing left: they put forward -inf, at `nowhere`.
    """

    x: ir.Value
    row: ir.Value
    numbers: ir.VectorType
    heads: ir.Value
    where: ir.Value

    @staticmethod
    def start(x: ir.Value, row: ir.Value, numbers: ir.VectorType) -> "_Tournament":
        """Lets each group put forward its first."""
        (width,), columns, element = numbers.shape, x.type.shape[1], numbers.element_type
        groups = _round_up(-(-columns // _group_size(columns, width)), width)
        heads = memref.alloca(ir.MemRefType.get([groups], element), [], [])
        where = memref.alloca(ir.MemRefType.get([groups], T.i32()), [], [])
        new = _Tournament(x, row, numbers, heads, where)
        for group in scf.for_(index(0), index(groups)):
            new._put_forward(group, constant(inf, element), constant(-1, T.i32()))
            scf.yield_([])
        return new

    def take_winner(self) -> tuple[ir.Value, ir.Value]:
        """The first of the largest numbers that are left, and its place in the row."""
        (groups,) = self.heads.type.shape
        value, place = first_largest(
            self._read_heads, index(0), index(groups), self.numbers, self._nowhere
        )
        # Of a row that holds NaN, a winner may have no place: it must not lead out of the row.
        place = arith.minsi(place, constant(self._columns - 1, T.i32()))
        group = arith.divui(arith.index_cast(T.index(), place), index(self._size))
        self._put_forward(group, value, place)
        return value, place

    def _put_forward(self, group: ir.Value, value: ir.Value, place: ir.Value) -> None:
        """The group's first that goes after `value` at `place`."""
        begin = arith.muli(group, index(self._size))
        end = arith.minui(arith.addi(begin, index(self._size)), index(self._columns))
        read = self._read_after(begin, value, place)
        head, where = first_largest(read, begin, end, self.numbers, self._nowhere)
        memref.store(head, self.heads, [group])
        memref.store(where, self.where, [group])

    def _read_after(self, begin: ir.Value, value: ir.Value, place: ir.Value) -> Read:
        """Reads the row with -inf, at no place, for what is before `begin` or a winner already."""
        numbers = self.numbers
        left = only_after(read_row(self.x, self.row, numbers), value, place, self._columns)
        first = vector.broadcast(places(numbers), arith.index_cast(T.i32(), begin))

        def read(at: ir.Value) -> tuple[ir.Value, ir.Value]:
            found, where = left(at)
            is_within = arith.cmpi(arith.CmpIPredicate.sge, where, first)
            lowest, nowhere = splat(-inf, numbers), splat(self._columns, where.type)
            return arith.select(is_within, found, lowest), arith.select(is_within, where, nowhere)

        return read

    def _read_heads(self, at: ir.Value) -> tuple[ir.Value, ir.Value]:
        where = vector.load(places(self.numbers), self.where, [at])
        return vector.load(self.numbers, self.heads, [at]), where

    @property
    def _columns(self) -> int:
        return self.x.type.shape[1]

    @property
    def _size(self) -> int:
        return _group_size(self._columns, self.numbers.shape[0])

    @property
    def _nowhere(self) -> ir.Value:
        return constant(self._columns, T.i32())


def _group_size(columns: int, width: int) -> int:
    """About the square root of `columns`, in whole vectors."""
    return _round_up(isqrt(columns), width)


def _round_up(number: int, factor: int) -> int:
    return -(-number // factor) * factor
