"""Rows of a KV cache, as kernels append them: floats, or blocks of 32 of 8 bits in cells.

A cache of cells is seen as their bytes `[L, S, G, C/512, D/32, 17408]`.
"""

from collections.abc import Callable, Sequence
from functools import reduce

from torch_mlir import ir
from torch_mlir.dialects import arith, math, memref, scf, vector
from torch_mlir.extras import types as T

from llmc.dialects.block_panels import WORD
from llmc.dialects.blocks import Q8_0
from llmc.dialects.cache_cells import COLUMNS, PANEL, PLANES, CellFormat, Plane
from llmc.dialects.index_notation import constant, index
from llmc.pipelines.kernels.head_row import Write
from llmc.pipelines.kernels.kernel import div_rem
from llmc.pipelines.kernels.splat import splat
from llmc.pipelines.kernels.vectors import (
    clear_behind,
    highest,
    load,
    maximum,
    store,
    walsh_hadamard,
    width_of,
)


def holds_bytes_of_cells(cache: ir.Value) -> bool:
    """Whether the buffer `cache` holds cells."""
    return bool(cache.type.element_type == T.i8())


def channels_of(cache: ir.Value) -> int:
    """The channels that a row of the buffer `cache` has room for."""
    count = int(cache.type.shape[4])
    return Q8_0.values * count if holds_bytes_of_cells(cache) else count


class RowWriter:
    """Appends rows of `channels` to `cache`, rounded to what it holds.

    These are cells of `format_`, where it is given. `lanes` is a register's floats.
    """

    def __init__(
        self, cache: ir.Value, channels: int, lanes: int, format_: CellFormat | None
    ) -> None:
        self._cache = cache
        self._cells = None if format_ is None else _CellWriter(cache, channels, lanes, format_)

    def append(self, place: Sequence[ir.Value], make: Callable[[Write], None]) -> None:
        """The row at `place` becomes what `make(write)` passes to `write(numbers, channel)`."""
        if self._cells is None:
            make(lambda x, at: store(x, self._cache, [*place, at]))
        else:
            self._cells.append(place, make)


class _CellWriter:
    """`RowWriter` of cells."""

    def __init__(self, cache: ir.Value, channels: int, lanes: int, format_: CellFormat) -> None:
        self._cache, self._format = cache, format_
        self._lanes = width_of(lanes, Q8_0.values)
        type_ = ir.MemRefType.get([channels_of(cache)], T.f32())
        self._room = memref.alloca(type_, [], [])
        clear_behind(self._room, [], channels)

    def append(self, place: Sequence[ir.Value], make: Callable[[Write], None]) -> None:
        make(lambda x, at: vector.store(x, self._room, [at]))
        *head, column = place
        number, within = div_rem(column, COLUMNS)
        for block in scf.for_(index(0), index(self._cache.type.shape[4])):
            self._round(block, [*head, number, block], within)
            scf.yield_([])

    def _round(self, block: ir.Value, cell: list[ir.Value], column: ir.Value) -> None:
        """Writes a block, as `llmc.quantize` says, as a column of a cell."""
        first, f32 = arith.muli(block, index(Q8_0.values)), T.f32()
        offsets = range(0, Q8_0.values, self._lanes)
        numbers = [load(self._room, [arith.addi(first, index(i))], self._lanes) for i in offsets]
        if self._format.transformed:
            numbers = walsh_hadamard(numbers)
        largest = math.absf(numbers[0])
        for x in numbers[1:]:
            largest = maximum(largest, math.absf(x))
        largest = vector.extract(highest(largest), [], [0])
        scale, zero = arith.divf(largest, constant(127.0, f32)), constant(0.0, f32)
        is_zero = arith.cmpf(arith.CmpFPredicate.OEQ, scale, zero)
        inverse = arith.select(is_zero, zero, arith.divf(constant(1.0, f32), scale))
        half = vector.broadcast(ir.VectorType.get([1], T.f16()), arith.truncf(T.f16(), scale))
        byte = T.i8()
        two = vector.bitcast(ir.VectorType.get([2], byte), half)
        vector.store(two, self._cache, [*cell, arith.muli(column, index(2))])
        parts = []
        for x in numbers:
            nearest = math.round(arith.mulf(x, vector.broadcast(x.type, inverse)))
            parts.append(arith.fptosi(ir.VectorType.get([self._lanes], byte), nearest))
        rounded = _joined(parts)
        for plane in PLANES:
            self._store(_packed(rounded, plane), plane, cell, column)

    def _store(
        self, packed: ir.Value, plane: Plane, cell: list[ir.Value], column: ir.Value
    ) -> None:
        """Writes the bytes that a column has in a plane.

        No byte of another column is touched, which another workgroup may be writing.
        """
        together = WORD if self._format.sums_channels else 1
        for channel in range(0, plane.channels, together):
            part = vector.shuffle(packed, packed, range(channel, channel + together))
            vector.store(part, self._cache, [*cell, self._place(plane, column, index(channel))])

    def _place(self, plane: Plane, column: ir.Value, channel: ir.Value) -> ir.Value:
        """Where in a cell a plane has the byte of one of its columns and channels."""
        panel, within = div_rem(column, PANEL)
        summed, lane = (channel, within) if self._format.sums_channels else (within, channel)
        word, part = div_rem(summed, WORD)
        _, words, lanes, _ = self._format.words(plane)
        words = arith.addi(arith.muli(panel, index(words)), word)
        place = arith.addi(arith.muli(words, index(lanes)), lane)
        begin = index(self._format.begin(plane))
        return arith.addi(arith.addi(arith.muli(place, index(WORD)), part), begin)


def _joined(parts: list[ir.Value]) -> ir.Value:
    """The elements of vectors that follow each other, as many as a power of two."""
    while len(parts) > 1:
        both = range(2 * parts[0].type.shape[0])
        parts = [vector.shuffle(*pair, both) for pair in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def _packed(block: ir.Value, plane: Plane) -> ir.Value:
    """The bytes of a plane, of the 32 integers of a block."""
    parts = []
    for number, start in enumerate(plane.starts):
        part = vector.shuffle(block, block, range(start, start + plane.channels))
        own = arith.shrui(part, splat(plane.first, part.type))
        own = arith.andi(own, splat(plane.mask, part.type))
        parts.append(arith.shli(own, splat(plane.width * number, part.type)))
    return reduce(arith.ori, parts)
