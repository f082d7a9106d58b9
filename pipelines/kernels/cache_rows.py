"""Rows of a KV cache, as kernels read and append them: floats, or blocks of 32 of 8 bits.

A cache of blocks is seen as bytes `[L, S, G, C, D/32, 34]`, those of `!llmc.q8_0`.
"""

from collections.abc import Callable, Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith, math, memref, scf, vector

from llmc.dialects.blocks import Q8_0
from llmc.dialects.index_notation import constant, index
from llmc.pipelines.kernels.head_row import Write
from llmc.pipelines.kernels.vectors import (
    floats,
    highest,
    load,
    maximum,
    store,
    width_of,
)

SCALE, _ = Q8_0.bytes_of("scale")
INTEGERS, _ = Q8_0.bytes_of("packed")
"""Where these begin in a block."""


def holds_blocks(cache: ir.Value) -> bool:
    """Whether the buffer `cache` holds blocks."""
    return bool(cache.type.element_type == ir.IntegerType.get_signless(8))


def channels_of(cache: ir.Value) -> int:
    """The channels of a row of the buffer `cache`."""
    count = int(cache.type.shape[4])
    return Q8_0.values * count if holds_blocks(cache) else count


def read_row(cache: ir.Value, place: Sequence[ir.Value], at: ir.Value, lanes: int) -> ir.Value:
    """`lanes` numbers of the row at `place` from channel `at` on, as float32.

    `lanes` divides the channels, and 32 in a cache of blocks.
    """
    if not holds_blocks(cache):
        return load(cache, [*place, at], lanes)
    block, inner = (op(at, index(Q8_0.values)) for op in (arith.divui, arith.remui))
    integers = read_bytes(cache, [*place, block, arith.addi(index(INTEGERS), inner)], lanes)
    half = vector.bitcast(
        ir.VectorType.get([1], ir.F16Type.get()),
        read_bytes(cache, [*place, block, index(SCALE)], 2),
    )
    scale = arith.extf(ir.F32Type.get(), vector.extract(half, [], [0]))
    wide = arith.sitofp(floats(lanes), integers)
    return arith.mulf(wide, vector.broadcast(floats(lanes), scale))


def read_bytes(buffer: ir.Value, where: Sequence[ir.Value], count: int) -> ir.Value:
    """`count` bytes of `buffer` from `where` on."""
    return vector.load(ir.VectorType.get([count], buffer.type.element_type), buffer, list(where))


class RowWriter:
    """Appends rows to `cache`, rounded to what it holds. `lanes` is a register's floats."""

    def __init__(self, cache: ir.Value, lanes: int) -> None:
        self.cache = cache
        self.lanes = width_of(lanes, channels_of(cache))
        self.room = None
        if holds_blocks(cache):
            type_ = ir.MemRefType.get([channels_of(cache)], ir.F32Type.get())
            self.room = memref.alloca(type_, [], [])

    def append(self, place: Sequence[ir.Value], make: Callable[[Write], None]) -> None:
        """The row at `place` becomes what `make(write)` passes to `write(numbers, channel)`."""
        if self.room is None:
            make(lambda x, at: store(x, self.cache, [*place, at]))
            return
        make(lambda x, at: vector.store(x, self.room, [at]))
        for block in scf.for_(index(0), index(self.cache.type.shape[4])):
            self._round(block, place)
            scf.yield_([])

    def _round(self, block: ir.Value, place: Sequence[ir.Value]) -> None:
        """Writes a block as `llmc.quantize` says."""
        first, f32 = arith.muli(block, index(Q8_0.values)), ir.F32Type.get()
        offsets = range(0, Q8_0.values, self.lanes)
        numbers = [load(self.room, [arith.addi(first, index(i))], self.lanes) for i in offsets]
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
        vector.store(two, self.cache, [*place, block, index(SCALE)])
        for offset, x in zip(offsets, numbers, strict=True):
            nearest = math.round(arith.mulf(x, vector.broadcast(x.type, inverse)))
            integers = arith.fptosi(ir.VectorType.get([self.lanes], byte), nearest)
            vector.store(integers, self.cache, [*place, block, index(INTEGERS + offset)])
