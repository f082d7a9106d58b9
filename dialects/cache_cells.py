"""Cells: numbers of 8 bits of a KV cache, where a kernel reads what it multiplies together at once.

A cell holds 512 columns of a head by 32 channels: the bits of 512 blocks of Q8_0, in another order.
First come the scales of the columns, then the upper halves of all integers before the lower ones: a
reader to whom a column hardly matters does without these. Halves are 8 KiB, for what is left out in
smaller pieces a CPU fetches nevertheless. Keys are transformed before they are rounded, as are the
queries that they meet (`walsh_hadamard`): their upper halves alone then tell more of a product.

A byte of halves is of two channels, 16 apart, that of the lower one in its lower half. Bytes lie in
panels of 16 columns, and there in words of 4, for products of bytes add up four: of keys, 4
channels of column 0, of column 1, ... column 15, and then the next 4 channels of these; of values,
4 columns of channel 0, of channel 1, ... channel 15, and then the next 4 columns.
"""

from dataclasses import dataclass
from functools import reduce

import numpy as np

from llmc.dialects.block_panels import WORD
from llmc.dialects.blocks import Q8_0
from llmc.dialects.walsh_hadamard import walsh_hadamard

COLUMNS = 512
"""How many columns a cell has."""

PANEL = 16
"""How many columns follow each other in what a cell holds."""


def blocks_of(channels: int) -> int:
    """How many blocks a row of so many channels takes, of which the last may end in zeros."""
    return -(-channels // Q8_0.values)


def room_of(channels: int) -> int:
    """How many channels the blocks of a row of so many have room for."""
    return Q8_0.values * blocks_of(channels)


def are_smaller(*channels: int) -> bool:
    """Whether blocks of rows of so many channels take less than float16 would."""
    return sum(Q8_0.bytes * blocks_of(count) for count in channels) < 2 * sum(channels)


@dataclass(frozen=True)
class Plane:
    """Bits of each integer of a cell: `width` of them, of which the lowest is number `first`.

    A byte holds those of `8 / width` channels, which are `channels` apart.
    """

    field: str
    width: int
    first: int

    @property
    def channels(self) -> int:
        """How many bytes a column has."""
        return Q8_0.values * self.width // 8

    @property
    def starts(self) -> range:
        """Of the channels that share a byte, the first of each."""
        return range(0, Q8_0.values, self.channels)

    @property
    def mask(self) -> int:
        """The lowest `width` bits."""
        return 2**self.width - 1

    def pack(self, integers: np.ndarray) -> np.ndarray:
        """The bytes of integers: uint8 `[..., 32]` -> `[..., channels]`."""
        bits = integers >> self.first & self.mask
        parts = np.split(bits, len(self.starts), axis=-1)
        return reduce(np.bitwise_or, (x << self.width * i for i, x in enumerate(parts)))

    def unpack(self, packed: np.ndarray) -> np.ndarray:
        """What bytes give to the integers: uint8 `[..., channels]` -> `[..., 32]`."""
        parts = [packed >> self.width * i & self.mask for i in range(len(self.starts))]
        return np.concatenate(parts, axis=-1) << self.first


UPPER, LOWER = PLANES = Plane("upper", 4, first=4), Plane("lower", 4, first=0)


@dataclass(frozen=True)
class CellFormat:
    """Cells whose words are 4 channels of a column, or else 4 columns of a channel.

    Rows are `transformed` (`walsh_hadamard`) before they are rounded, or rounded as they are.
    """

    name: str
    sums_channels: bool
    transformed: bool

    @property
    def dtype(self) -> np.dtype:
        """A cell, as an element of an array."""
        planes = [(self.field(plane), "u1", self.words(plane)) for plane in PLANES]
        return np.dtype([("scale", "<f2", (COLUMNS,)), *planes])

    def field(self, plane: Plane) -> str:
        """The name of a plane in `dtype`, and of what its words are."""
        return f"{plane.field}_{'channels' if self.sums_channels else 'columns'}"

    @property
    def bytes(self) -> int:
        """The size of a cell."""
        return COLUMNS * Q8_0.bytes

    def words(self, plane: Plane) -> tuple[int, int, int, int]:
        """The extents of a plane: panels, words of a lane, lanes side by side, and 4."""
        lanes = PANEL if self.sums_channels else plane.channels
        return COLUMNS // PANEL, PANEL * plane.channels // (lanes * WORD), lanes, WORD

    def begin(self, plane: Plane) -> int:
        """Where in a cell a plane begins."""
        _, begin, *_ = dict(self.dtype.fields or {})[self.field(plane)]
        return begin

    def encode(self, rows: np.ndarray) -> np.ndarray:
        """The blocks of Q8_0 `[..., blocks_of(D)]` that are kept of float32 rows `[..., D]`."""
        channels = rows.shape[-1]
        zeros = room_of(channels) - channels
        whole = np.pad(rows, [*[(0, 0)] * (rows.ndim - 1), (0, zeros)])
        return Q8_0.encode(walsh_hadamard(whole) if self.transformed else whole)

    def decode(self, blocks: np.ndarray) -> np.ndarray:
        """The rows `[..., 32 K]` that blocks of Q8_0 `[..., K]` are kept of."""
        rows = Q8_0.decode(blocks)
        return walsh_hadamard(rows) if self.transformed else rows

    def pack(self, blocks: np.ndarray) -> np.ndarray:
        """The cells of blocks of Q8_0 `[..., C, K]`: `[..., C / 512, K]`, filled up with zeros."""
        *leading, columns, count = blocks.shape
        number = -(-columns // COLUMNS)
        padded = np.zeros((*leading, number * COLUMNS, count), Q8_0.dtype)
        padded[..., :columns, :] = blocks
        rows = padded.reshape(*leading, number, COLUMNS, count).swapaxes(-1, -2)
        cells = np.zeros(rows.shape[:-1], self.dtype)
        cells["scale"] = rows["scale"]
        for plane in PLANES:
            panels, words, lanes, _ = self.words(plane)
            bits = plane.pack(rows["packed"]).reshape(*cells.shape, panels, PANEL, plane.channels)
            summed = bits.swapaxes(-1, -2) if self.sums_channels else bits
            in_words = summed.reshape(*cells.shape, panels, words, WORD, lanes)
            cells[self.field(plane)] = in_words.swapaxes(-1, -2)
        return cells

    def unpack(self, cells: np.ndarray) -> np.ndarray:
        """The blocks of Q8_0 `[..., 512 P, K]` that are in cells `[..., P, K]`."""
        *leading, number, count = cells.shape
        rows = np.zeros((*cells.shape, COLUMNS), Q8_0.dtype)
        rows["scale"] = cells["scale"]
        for plane in PLANES:
            panels, _, lanes, _ = self.words(plane)
            in_words = cells[self.field(plane)].swapaxes(-1, -2)
            summed = in_words.reshape(*cells.shape, panels, -1, lanes)
            bits = summed.swapaxes(-1, -2) if self.sums_channels else summed
            rows["packed"] |= plane.unpack(bits.reshape(*cells.shape, COLUMNS, plane.channels))
        return rows.swapaxes(-1, -2).reshape(*leading, number * COLUMNS, count)


KEYS = CellFormat("q8_0_keys", sums_channels=True, transformed=True)
VALUES = CellFormat("q8_0_values", sums_channels=False, transformed=False)


def cells_of(array: np.ndarray) -> CellFormat | None:
    """The format of an array of cells; None of one that holds anything else."""
    return next((each for each in (KEYS, VALUES) if each.dtype == array.dtype), None)
