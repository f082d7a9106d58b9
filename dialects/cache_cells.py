"""Cells: numbers of 8 bits of a KV cache, where a kernel reads what it multiplies together at once.

A cell holds 16 columns of a head by 32 channels: the bytes of 16 blocks of Q8_0, in another order.
First come the scales of the columns. Then come words of 4 bytes, for products of bytes add up four:
of keys, 4 channels of column 0, of column 1, ... column 15, and then the next 4 channels of these;
of values, 4 columns of channel 0, of channel 1, ... channel 31, and then the next 4 columns.
"""

from dataclasses import dataclass

import numpy as np

from llmc.dialects.block_panels import WORD
from llmc.dialects.blocks import Q8_0

COLUMNS = 16
"""How many columns a cell has."""

INTEGERS = 2 * COLUMNS
"""Where the integers of a cell begin, behind float16 scales."""


@dataclass(frozen=True)
class CellFormat:
    """Cells whose words are 4 channels of a column, or else 4 columns of a channel.

    Integers are `[words, lanes, 4]`; the lanes of a word are columns, or else channels.
    """

    name: str
    sums_channels: bool

    @property
    def dtype(self) -> np.dtype:
        """A cell, as an element of an array."""
        packed = ("packed", "i1", (self.words, self.lanes, WORD))
        return np.dtype([("scale", "<f2", (COLUMNS,)), packed])

    @property
    def bytes(self) -> int:
        """The size of a cell."""
        return COLUMNS * Q8_0.bytes

    @property
    def lanes(self) -> int:
        """How many words lie side by side."""
        return COLUMNS if self.sums_channels else Q8_0.values

    @property
    def words(self) -> int:
        """How many words a lane has."""
        return COLUMNS * Q8_0.values // (self.lanes * WORD)

    def pack(self, blocks: np.ndarray) -> np.ndarray:
        """The cells of blocks of Q8_0 `[..., C, K]`: `[..., C / 16, K]`, rounded up, with zeros."""
        *leading, columns, count = blocks.shape
        panels = -(-columns // COLUMNS)
        padded = np.zeros((*leading, panels * COLUMNS, count), Q8_0.dtype)
        padded[..., :columns, :] = blocks
        rows = padded.reshape(*leading, panels, COLUMNS, count).swapaxes(-1, -2)
        integers = Q8_0.integers(rows)
        summed = integers.swapaxes(-1, -2) if self.sums_channels else integers
        cells = np.zeros(rows.shape[:-1], self.dtype)
        cells["scale"] = rows["scale"]
        cells["packed"] = summed.reshape(*cells.shape, self.words, WORD, -1).swapaxes(-1, -2)
        return cells

    def unpack(self, cells: np.ndarray) -> np.ndarray:
        """The blocks of Q8_0 `[..., 16 P, K]` that are in cells `[..., P, K]`."""
        *leading, panels, count = cells.shape
        summed = cells["packed"].swapaxes(-1, -2).reshape(*cells.shape, -1, self.lanes)
        integers = summed.swapaxes(-1, -2) if self.sums_channels else summed
        rows = np.zeros((*cells.shape, COLUMNS), Q8_0.dtype)
        rows["scale"], rows["packed"] = cells["scale"], integers.view(np.uint8)
        return rows.swapaxes(-1, -2).reshape(*leading, panels * COLUMNS, count)


KEYS = CellFormat("q8_0_keys", sums_channels=True)
VALUES = CellFormat("q8_0_values", sums_channels=False)


def cells_of(array: np.ndarray) -> CellFormat | None:
    """The format of an array of cells; None of one that holds anything else."""
    return next((each for each in (KEYS, VALUES) if each.dtype == array.dtype), None)
