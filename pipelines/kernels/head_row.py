"""A head's row of a linear layer's result, as attention wants it: normed, turned and scaled."""

from collections.abc import Callable
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith, scf

from llmc.dialects.index_notation import index
from llmc.pipelines.kernels.kernel import multiply_add
from llmc.pipelines.kernels.vectors import load, width_of

Write = Callable[[ir.Value, ir.Value], None]


@dataclass(frozen=True)
class Rotation:
    """Buffers `cos` and `sin [B or 1, T, R]`, and the sequence and its token to turn."""

    cos: ir.Value
    sin: ir.Value
    batch: ir.Value
    token: ir.Value

    @property
    def channels(self) -> int:
        """How many channels are turned."""
        return self.cos.type.shape[2]

    def factors(self, at: ir.Value, lanes: int) -> tuple[ir.Value, ir.Value]:
        """Cosines and sines from channel `at` on."""
        row = index(0) if self.cos.type.shape[0] == 1 else self.batch
        cos, sin = (load(table, [row, self.token, at], lanes) for table in (self.cos, self.sin))
        return cos, sin


@dataclass(frozen=True)
class HeadRow:
    """`channels` numbers of the row of `buffer [..., N]` that is at `where`, from `first` on."""

    buffer: ir.Value
    where: list[ir.Value]
    first: ir.Value
    channels: int
    lanes: int

    def copy(self, write: Write) -> None:
        """Passes all channels to `write(values, at)`, vector by vector."""
        self._each(0, self.channels, width_of(self.lanes, self.channels), self._load, write)

    def rotate(self, rotation: Rotation, write: Write) -> None:
        """As `copy`, turned as `llmc.rotary` says."""
        turned = rotation.channels
        half = turned // 2
        lanes = width_of(self.lanes, half, self.channels)
        for at in scf.for_(index(0), index(half), index(lanes)):
            other = arith.addi(at, index(half))
            low, high = self._load(at, lanes), self._load(other, lanes)
            cos, sin = rotation.factors(at, lanes)
            write(multiply_add(arith.negf(high), sin, arith.mulf(low, cos)), at)
            cos, sin = rotation.factors(other, lanes)
            write(multiply_add(low, sin, arith.mulf(high, cos)), other)
            scf.yield_([])
        self._each(turned, self.channels, lanes, self._load, write)

    def _load(self, at: ir.Value, lanes: int) -> ir.Value:
        return load(self.buffer, [*self.where, arith.addi(self.first, at)], lanes)

    def _each(
        self,
        start: int,
        end: int,
        lanes: int,
        read: Callable[[ir.Value, int], ir.Value],
        write: Write,
    ) -> None:
        for at in scf.for_(index(start), index(end), index(lanes)):
            write(read(at, lanes), at)
            scf.yield_([])
