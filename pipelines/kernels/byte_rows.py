"""The rows of a head in a cache of blocks, as bytes that follow each other."""

from torch_mlir import ir
from torch_mlir.dialects import arith, memref, vector

from llmc.dialects.index_notation import index
from llmc.pipelines.kernels.cache_rows import read_bytes

# Bytes that memory gives at once.
_LINE = 64


class ByteRows:
    """Columns of `head`, a place in the first dimensions of `cache`, of `bytes` bytes each.

    Of one dimension, so that what is constant in a place becomes part of an instruction.
    """

    def __init__(self, cache: ir.Value, head: list[ir.Value]) -> None:
        *extents, capacity = (memref.dim(cache, index(dim)) for dim in range(4))
        self.bytes = cache.type.shape[4] * cache.type.shape[5]
        heads, first = index(1), index(0)
        for extent, place in zip(extents, head, strict=True):
            heads = arith.muli(heads, extent)
            first = arith.addi(arith.muli(first, extent), place)
        self._first = arith.muli(first, capacity)
        size = arith.muli(arith.muli(heads, capacity), index(self.bytes))
        unknown = ir.ShapedType.get_dynamic_size()
        flat = ir.MemRefType.get([unknown], cache.type.element_type)
        self._buffer = memref.reinterpret_cast(flat, cache, [], [size], [], [0], [unknown], [1])

    def begin(self, column: ir.Value) -> ir.Value:
        """Where the row of `column` begins."""
        return arith.muli(arith.addi(self._first, column), index(self.bytes))

    def read(self, begin: ir.Value, offset: int, count: int) -> ir.Value:
        """`count` bytes, `offset` of them after `begin`."""
        return read_bytes(self._buffer, [arith.addi(begin, index(offset))], count)

    def prefetch(self, column: ir.Value, count: int) -> None:
        """Asks memory for `count` rows from `column` on, for caches are read once for a token."""
        begin = self.begin(column)
        for offset in range(0, count * self.bytes, _LINE):
            where = [arith.addi(begin, index(offset))]
            memref.prefetch(self._buffer, where, False, 3, True)


def join(parts: list[ir.Value]) -> ir.Value:
    """Vectors, a power of two of them, one behind the other."""
    while len(parts) > 1:
        lanes = range(2 * parts[0].type.shape[0])
        parts = [vector.shuffle(x, y, lanes) for x, y in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def interleaved(parts: list[ir.Value]) -> ir.Value:
    """Of vectors, a power of two of them, the first elements, then the second ones, and so on."""
    width, whole = parts[0].type.shape[0], join(parts)
    order = [part * width + at for at in range(width) for part in range(len(parts))]
    return vector.shuffle(whole, whole, order)
