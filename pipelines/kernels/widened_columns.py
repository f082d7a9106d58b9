"""A block of cached columns as float32, for kernels that read it element by element."""

from collections.abc import Callable, Iterator
from itertools import product

from torch_mlir import ir
from torch_mlir.dialects import arith, memref, scf, vector

from llmc.dialects.block_panels import PART
from llmc.dialects.blocks import Q8_0
from llmc.dialects.cache_cells import COLUMNS, INTEGERS, KEYS, CellFormat
from llmc.dialects.index_notation import index
from llmc.pipelines.kernels.cache_rows import channels_of
from llmc.pipelines.kernels.cell_panels import CellPanels
from llmc.pipelines.kernels.vectors import floats, load, transpose, width_of

Read = Callable[[ir.Value, ir.Value], ir.Value]
"""Loads an element by its column's offset in the block, and its channel."""

RUN = 8
"""Columns that are widened together: half of a cell."""

# Numbers that are widened together.
_LANES = 16


class WidenedColumns:
    """Room for rows of `columns`, a multiple of `RUN`, of the head at `where` in caches."""

    def __init__(self, columns: int, channels: int, where: list[ir.Value]) -> None:
        self._where = where
        type_ = ir.MemRefType.get([columns * channels], ir.F32Type.get())
        self._room = memref.alloca(type_, [], [])

    def rows(self, cache: ir.Value, column: ir.Value, count: ir.Value) -> Read:
        """How to read `count` columns of floats from `column` on, widened."""
        channels = channels_of(cache)
        lanes = width_of(_LANES, channels)
        for offset in scf.for_(index(0), count):
            row = [*self._where, arith.addi(column, offset)]
            for d in scf.for_(index(0), index(channels), index(lanes)):
                self._store(load(cache, [*row, d], lanes), offset, d, channels)
                scf.yield_([])
            scf.yield_([])
        return self._read(channels)

    def cells(
        self, format_: CellFormat, cache: ir.Value, column: ir.Value, count: ir.Value
    ) -> Read:
        """How to read `count` columns of cells from `column` on, a multiple of `RUN`, widened."""
        panels, channels = CellPanels(format_, cache, self._where), channels_of(cache)
        for offset in scf.for_(index(0), count, index(RUN)):
            for cell in scf.for_(index(0), index(cache.type.shape[4])):
                begin = panels.begin(arith.addi(column, offset), cell)
                within = arith.remui(arith.addi(column, offset), index(COLUMNS))
                scales = _scales(panels, begin, within)
                rows = (_keys if format_.sums_channels else _values)(panels, begin, within)
                for (number, at), integers in rows:
                    scale = vector.shuffle(scales, scales, [number] * _LANES)
                    widened = arith.mulf(arith.sitofp(floats(_LANES), integers), scale)
                    channel = arith.addi(arith.muli(cell, index(Q8_0.values)), index(at))
                    self._store(widened, arith.addi(offset, index(number)), channel, channels)
                scf.yield_([])
            scf.yield_([])
        return self._read(channels)

    def _store(self, numbers: ir.Value, offset: ir.Value, channel: ir.Value, channels: int) -> None:
        vector.store(numbers, self._room, [_place(offset, channel, channels)])

    def _read(self, channels: int) -> Read:
        return lambda offset, d: memref.load(self._room, [_place(offset, d, channels)])


_Rows = Iterator[tuple[tuple[int, int], ir.Value]]
"""Column and first channel, both within a run, and the integers from there on."""


def _keys(panels: CellPanels, begin: ir.Value, within: ir.Value) -> _Rows:
    """The keys of a run that begins `within` the panel of a cell: words are turned."""
    begin = arith.addi(begin, arith.muli(within, index(PART)))
    words = ir.VectorType.get([RUN], ir.IntegerType.get_signless(32))
    read = [
        panels.read(begin, INTEGERS + word * COLUMNS * PART, RUN * PART)
        for word in range(KEYS.words)
    ]
    for column, turned in enumerate(transpose([vector.bitcast(words, each) for each in read])):
        integers = vector.bitcast(read[0].type, turned)
        for at in range(0, Q8_0.values, _LANES):
            yield (column, at), vector.shuffle(integers, integers, range(at, at + _LANES))


def _values(panels: CellPanels, begin: ir.Value, within: ir.Value) -> _Rows:
    """The values of a run that begins `within` the panel of a cell: words are parted."""
    begin = arith.addi(begin, arith.muli(within, index(Q8_0.values)))
    for word, at in product(range(RUN // PART), range(0, Q8_0.values, _LANES)):
        offset = INTEGERS + (word * Q8_0.values + at) * PART
        words = panels.read(begin, offset, _LANES * PART)
        for part in range(PART):
            integers = vector.shuffle(words, words, range(part, _LANES * PART, PART))
            yield (word * PART + part, at), integers


def _scales(panels: CellPanels, begin: ir.Value, within: ir.Value) -> ir.Value:
    """The scales of a run that begins `within` the panel of a cell."""
    halves = ir.VectorType.get([RUN], ir.F16Type.get())
    read = panels.read(arith.addi(begin, arith.muli(within, index(2))), 0, 2 * RUN)
    return arith.extf(floats(RUN), vector.bitcast(halves, read))


def _place(offset: ir.Value, channel: ir.Value, channels: int) -> ir.Value:
    return arith.addi(arith.muli(offset, index(channels)), channel)
