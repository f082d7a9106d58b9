"""The cells of a head in a KV cache, as bytes that follow each other."""

from collections.abc import Iterator, Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith, memref, scf, vector
from torch_mlir.extras import types as T

from llmc.dialects.block_panels import WORD
from llmc.dialects.cache_cells import COLUMNS, PANEL, UPPER, CellFormat, Plane
from llmc.dialects.index_notation import index
from llmc.pipelines.kernels.vectors import floats, read_bytes
from llmc.pipelines.targets.cpu import CACHE_LINE


class CellPanels:
    """Panels of `head`, a place in the first dimensions of `cache`: what cells have of 16 columns.

    Of one dimension, so that what is constant in a place becomes part of an instruction.
    """

    def __init__(self, format_: CellFormat, cache: ir.Value, head: list[ir.Value]) -> None:
        self.format = format_
        *extents, count = (memref.dim(cache, index(dim)) for dim in range(4))
        self._cells = cache.type.shape[4]
        # Both planes have as many bytes.
        self._panel = PANEL * UPPER.channels
        heads, first = index(1), index(0)
        for extent, place in zip(extents, head, strict=True):
            heads = arith.muli(heads, extent)
            first = arith.addi(arith.muli(first, extent), place)
        self._first = arith.muli(first, count)
        size = arith.muli(arith.muli(heads, count), index(self._cells * format_.bytes))
        unknown = ir.ShapedType.get_dynamic_size()
        flat = ir.MemRefType.get([unknown], cache.type.element_type)
        self._buffer = memref.reinterpret_cast(flat, cache, [], [size], [], [0], [unknown], [1])

    def scales(self, column: ir.Value, cell: ir.Value, count: int) -> ir.Value:
        """As float32 `count` scales of a cell, from that of `column` on."""
        both = read_bytes(self._buffer, [self._scale(column, cell)], 2 * count)
        halves = vector.bitcast(ir.VectorType.get([count], T.f16()), both)
        return arith.extf(floats(count), halves)

    def panel(self, column: ir.Value, cell: ir.Value) -> ir.Value:
        """Where a cell would begin if the panel of `column` were its first."""
        within = arith.divui(arith.remui(column, index(COLUMNS)), index(PANEL))
        begin = arith.addi(self._begin(column), arith.muli(within, index(self._panel)))
        return arith.addi(begin, self._offset(cell))

    def _scale(self, column: ir.Value, cell: ir.Value) -> ir.Value:
        within = arith.remui(column, index(COLUMNS))
        begin = arith.addi(self._begin(column), arith.muli(within, index(2)))
        return arith.addi(begin, self._offset(cell))

    def _begin(self, column: ir.Value) -> ir.Value:
        number = arith.addi(self._first, arith.divui(column, index(COLUMNS)))
        return arith.muli(number, index(self._cells * self.format.bytes))

    def _offset(self, cell: ir.Value) -> ir.Value:
        return arith.muli(cell, index(self.format.bytes))

    def read(self, panel: ir.Value, plane: Plane, word: int, lane: int, lanes: int) -> ir.Value:
        """Bytes of a plane: the words number `word` of `lanes`, from `lane` on."""
        _, _, side_by_side, _ = self.format.words(plane)
        offset = self.format.begin(plane) + WORD * (word * side_by_side + lane)
        return read_bytes(self._buffer, [arith.addi(panel, index(offset))], WORD * lanes)

    def prefetch(
        self,
        column: ir.Value,
        planes: tuple[Plane, ...],
        cells: Sequence[ir.Value] | None = None,
    ) -> None:
        """Asks memory for `planes` of the panel of `column`, of some `cells` or of all of them.

        They are wanted in no cache for long: a token reads them once.
        """
        if cells is None:
            for cell in scf.for_(index(0), index(self._cells)):
                self.prefetch(column, planes, [cell])
                scf.yield_([])
            return
        for cell in cells:
            for line in self._lines(column, cell, planes):
                memref.prefetch(self._buffer, [line], False, 2, True)

    def _lines(
        self, column: ir.Value, cell: ir.Value, planes: tuple[Plane, ...]
    ) -> Iterator[ir.Value]:
        """Where lines of a cell begin, scales being with the upper halves."""
        panel = self.panel(column, cell)
        for plane in planes:
            if plane is UPPER:
                yield self._scale(column, cell)
            begin = self.format.begin(plane)
            for offset in range(begin, begin + self._panel, CACHE_LINE):
                yield arith.addi(panel, index(offset))
