"""The cells of a head in a KV cache, as bytes that follow each other."""

from torch_mlir import ir
from torch_mlir.dialects import arith, memref

from llmc.dialects.cache_cells import COLUMNS, CellFormat
from llmc.dialects.index_notation import index
from llmc.pipelines.kernels.vectors import read_bytes
from llmc.pipelines.targets.cpu import CACHE_LINE


class CellPanels:
    """Panels of `head`, a place in the first dimensions of `cache`: the cells of 16 columns.

    Of one dimension, so that what is constant in a place becomes part of an instruction.
    """

    def __init__(self, format_: CellFormat, cache: ir.Value, head: list[ir.Value]) -> None:
        self.format = format_
        *extents, panels = (memref.dim(cache, index(dim)) for dim in range(4))
        self._bytes = cache.type.shape[4] * format_.bytes
        heads, first = index(1), index(0)
        for extent, place in zip(extents, head, strict=True):
            heads = arith.muli(heads, extent)
            first = arith.addi(arith.muli(first, extent), place)
        self._first = arith.muli(first, panels)
        size = arith.muli(arith.muli(heads, panels), index(self._bytes))
        unknown = ir.ShapedType.get_dynamic_size()
        flat = ir.MemRefType.get([unknown], cache.type.element_type)
        self._buffer = memref.reinterpret_cast(flat, cache, [], [size], [], [0], [unknown], [1])

    def begin(self, column: ir.Value, cell: ir.Value) -> ir.Value:
        """Where a cell begins, of the panel of `column`."""
        panel = arith.addi(self._first, arith.divui(column, index(COLUMNS)))
        first = arith.muli(panel, index(self._bytes))
        return arith.addi(first, arith.muli(cell, index(self.format.bytes)))

    def read(self, begin: ir.Value, offset: int, count: int) -> ir.Value:
        """`count` bytes, `offset` of them after `begin`."""
        return read_bytes(self._buffer, [arith.addi(begin, index(offset))], count)

    def prefetch(self, column: ir.Value, part: int = 0, parts: int = 1) -> None:
        """Asks memory for lines of the panel of `column`, of all those that number `part`.

        They are wanted in no cache for long: a token reads them once.
        """
        begin = self.begin(column, index(0))
        for offset in range(part * CACHE_LINE, self._bytes, parts * CACHE_LINE):
            where = [arith.addi(begin, index(offset))]
            memref.prefetch(self._buffer, where, False, 2, True)
