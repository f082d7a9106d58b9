"""A block of cached columns as float32, for kernels that read it element by element."""

from collections.abc import Callable

from torch_mlir import ir
from torch_mlir.dialects import arith, memref, scf, vector
from torch_mlir.extras import types as T

from llmc.dialects.index_notation import index
from llmc.pipelines.kernels.cache_rows import channels_of
from llmc.pipelines.kernels.vectors import load, width_of

Read = Callable[[ir.Value, ir.Value], ir.Value]
"""Loads an element by its column's offset in the block, and its channel."""

# Numbers that are widened together.
_LANES = 16


class WidenedColumns:
    """Room for `columns` rows of the head at `where` in caches."""

    def __init__(self, columns: int, channels: int, where: list[ir.Value]) -> None:
        self._where = where
        type_ = ir.MemRefType.get([columns * channels], T.f32())
        self._room = memref.alloca(type_, [], [])

    def rows(self, cache: ir.Value, column: ir.Value, count: ir.Value) -> Read:
        """How to read `count` columns of floats from `column` on, widened."""
        channels = channels_of(cache)
        lanes = width_of(_LANES, channels)
        for offset in scf.for_(index(0), count):
            row = [*self._where, arith.addi(column, offset)]
            for d in scf.for_(index(0), index(channels), index(lanes)):
                numbers = load(cache, [*row, d], lanes)
                vector.store(numbers, self._room, [_place(offset, d, channels)])
                scf.yield_([])
            scf.yield_([])
        return lambda offset, d: memref.load(self._room, [_place(offset, d, channels)])


def _place(offset: ir.Value, channel: ir.Value, channels: int) -> ir.Value:
    return arith.addi(arith.muli(offset, index(channels)), channel)
