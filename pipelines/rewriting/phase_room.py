"""The room that the phases of a persistent kernel have for what they give each other."""

from collections.abc import Mapping

from torch_mlir import ir
from torch_mlir.dialects import arith

from llmc.dialects.index_notation import Size, as_value, index
from llmc.pipelines.targets.cpu import CACHE_LINE
from llmc.pipelines.type_bytes import bytes_of


class PhaseRoom:
    """A tensor of bytes in which others lie, each from the start of a cache line on.

    `extents` has the dynamic extents of each of these.
    """

    def __init__(self, extents: dict[ir.Value, list[ir.Value]]) -> None:
        self.tensors = list(extents)
        self.extents = list(dict.fromkeys(extent for each in extents.values() for extent in each))
        self._extents = extents

    def offsets(self, known: Mapping[ir.Value, ir.Value]) -> dict[ir.Value, Size]:
        """Where each tensor begins, in bytes; computed here. `known` has the values of extents."""
        return self._layout(known)[0]

    def length(self, known: Mapping[ir.Value, ir.Value]) -> Size:
        """Of how many bytes it must be; computed here. `known` has the values of extents."""
        return self._layout(known)[1]

    def _layout(self, known: Mapping[ir.Value, ir.Value]) -> tuple[dict[ir.Value, Size], Size]:
        offsets: dict[ir.Value, Size] = {}
        end: Size = 0
        for value, dynamic in self._extents.items():
            offsets[value] = end
            length: Size = bytes_of(value.type)
            for extent in dynamic:
                length = arith.muli(as_value(length), known[extent])
            end = _add(end, _whole_lines(length))
        return offsets, end


def _whole_lines(length: Size) -> Size:
    """The bytes of the lines that so many bytes begin."""
    if isinstance(length, int):
        return -(-length // CACHE_LINE) * CACHE_LINE
    return arith.muli(arith.ceildivui(length, index(CACHE_LINE)), index(CACHE_LINE))


def _add(x: Size, y: Size) -> Size:
    if isinstance(x, int) and isinstance(y, int):
        return x + y
    return arith.addi(as_value(x), as_value(y))
