"""Rows of a KV cache, as kernels append them: floats, or blocks of 32 of 8 bits in cells.

A cache of cells is seen as their bytes `[L, S, G, C/16, D/32, 544]`.
"""

from collections.abc import Callable, Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith, math, memref, scf, vector

from llmc.dialects.block_panels import WORD
from llmc.dialects.blocks import Q8_0
from llmc.dialects.cache_cells import COLUMNS, INTEGERS, CellFormat
from llmc.dialects.index_notation import constant, index
from llmc.pipelines.kernels.head_row import Write
from llmc.pipelines.kernels.vectors import (
    highest,
    load,
    maximum,
    store,
    width_of,
)


def holds_cells(cache: ir.Value) -> bool:
    """Whether the buffer `cache` holds cells."""
    return bool(cache.type.element_type == ir.IntegerType.get_signless(8))


def channels_of(cache: ir.Value) -> int:
    """The channels of a row of the buffer `cache`."""
    count = int(cache.type.shape[4])
    return Q8_0.values * count if holds_cells(cache) else count


class RowWriter:
    """Appends rows to `cache`, rounded to what it holds: cells of `format_`, where it is given.

    `lanes` is a register's floats.
    """

    def __init__(self, cache: ir.Value, lanes: int, format_: CellFormat | None) -> None:
        self._cache = cache
        self._lanes = width_of(lanes, channels_of(cache))
        self._cells = None if format_ is None else _CellWriter(cache, self._lanes, format_)

    def append(self, place: Sequence[ir.Value], make: Callable[[Write], None]) -> None:
        """The row at `place` becomes what `make(write)` passes to `write(numbers, channel)`."""
        if self._cells is None:
            make(lambda x, at: store(x, self._cache, [*place, at]))
        else:
            self._cells.append(place, make)


class _CellWriter:
    """`RowWriter` of cells."""

    def __init__(self, cache: ir.Value, lanes: int, format_: CellFormat) -> None:
        self._cache, self._lanes, self._format = cache, lanes, format_
        type_ = ir.MemRefType.get([channels_of(cache)], ir.F32Type.get())
        self._room = memref.alloca(type_, [], [])

    def append(self, place: Sequence[ir.Value], make: Callable[[Write], None]) -> None:
        make(lambda x, at: vector.store(x, self._room, [at]))
        *head, column = place
        panel, within = (op(column, index(COLUMNS)) for op in (arith.divui, arith.remui))
        for block in scf.for_(index(0), index(self._cache.type.shape[4])):
            self._round(block, [*head, panel, block], within)
            scf.yield_([])

    def _round(self, block: ir.Value, cell: list[ir.Value], column: ir.Value) -> None:
        """Writes a block, as `llmc.quantize` says, as a column of a cell."""
        first, f32 = arith.muli(block, index(Q8_0.values)), ir.F32Type.get()
        offsets = range(0, Q8_0.values, self._lanes)
        numbers = [load(self._room, [arith.addi(first, index(i))], self._lanes) for i in offsets]
        largest = math.absf(numbers[0])
        for x in numbers[1:]:
            largest = maximum(largest, math.absf(x))
        largest = vector.extract(highest(largest), [], [0])
        scale, zero = arith.divf(largest, constant(127.0, f32)), constant(0.0, f32)
        is_zero = arith.cmpf(arith.CmpFPredicate.OEQ, scale, zero)
        inverse = arith.select(is_zero, zero, arith.divf(constant(1.0, f32), scale))
        half = vector.broadcast(
            ir.VectorType.get([1], ir.F16Type.get()), arith.truncf(ir.F16Type.get(), scale)
        )
        byte = ir.IntegerType.get_signless(8)
        two = vector.bitcast(ir.VectorType.get([2], byte), half)
        vector.store(two, self._cache, [*cell, arith.muli(column, index(2))])
        for offset, x in zip(offsets, numbers, strict=True):
            nearest = math.round(arith.mulf(x, vector.broadcast(x.type, inverse)))
            integers = arith.fptosi(ir.VectorType.get([self._lanes], byte), nearest)
            self._store(integers, offset, cell, column)

    def _store(
        self, integers: ir.Value, channel: int, cell: list[ir.Value], column: ir.Value
    ) -> None:
        """Writes what a column has in the channels from `channel` on.

        No byte of another column is touched, which another workgroup may be writing.
        """
        together = min(WORD, self._lanes) if self._format.sums_channels else 1
        for at in range(0, self._lanes, together):
            part = vector.shuffle(integers, integers, range(at, at + together))
            vector.store(part, self._cache, [*cell, self._integer_at(column, index(channel + at))])

    def _integer_at(self, column: ir.Value, channel: ir.Value) -> ir.Value:
        """Where in a cell the integer of one of its columns and channels is."""
        summed, lane = (channel, column) if self._format.sums_channels else (column, channel)
        word, part = (op(summed, index(WORD)) for op in (arith.divui, arith.remui))
        place = arith.addi(arith.muli(word, index(self._format.lanes)), lane)
        return arith.addi(arith.addi(arith.muli(place, index(WORD)), part), index(INTEGERS))
