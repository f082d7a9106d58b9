"""Cells of a KV cache hold the blocks of columns, byte by byte in the order that kernels read."""

import numpy as np
import pytest

from llmc.dialects.blocks import Q8_0
from llmc.dialects.cache_cells import COLUMNS, KEYS, PLANES, VALUES, cells_of

FORMATS = pytest.mark.parametrize("format_", [KEYS, VALUES], ids=["keys", "values"])


def blocks(columns: int) -> np.ndarray:
    """Blocks `[2, columns, 3]` of two heads."""
    numbers = np.random.default_rng(columns).standard_normal((2, columns, 3 * Q8_0.values))
    return Q8_0.encode(numbers)


@FORMATS
def test_what_is_packed_is_found_again(format_):
    rows = blocks(2 * COLUMNS + 37)
    cells = format_.pack(rows)
    assert cells.shape == (2, 3, 3)
    assert cells_of(cells) == format_
    again = format_.unpack(cells)
    np.testing.assert_array_equal(again[:, : 2 * COLUMNS + 37], rows)
    assert not again[:, 2 * COLUMNS + 37 :].view(np.uint8).any(), "columns of padding are zeros"


@FORMATS
def test_a_cell_takes_the_bytes_of_its_blocks(format_):
    assert format_.bytes == format_.dtype.itemsize == COLUMNS * Q8_0.bytes


@pytest.mark.parametrize(("column", "block", "channel"), [(0, 0, 0), (533, 1, 6), (1023, 2, 31)])
def test_words_are_channels_of_keys_and_columns_of_values(column, block, channel):
    rows = blocks(1024)
    integer = Q8_0.integers(rows)[1, column, block, channel]
    number, in_cell = divmod(column, 512)
    panel, within = divmod(in_cell, 16)
    scale = rows["scale"][1, column, block]

    shared, half = channel % 16, channel // 16
    for format_, summed, lane in ((KEYS, shared, within), (VALUES, within, shared)):
        cell = format_.pack(rows)[1, number, block].tobytes()
        assert np.frombuffer(cell, "<f2", 1, 2 * in_cell) == scale
        place = panel * 256 + summed // 4 * 64 + lane * 4 + summed % 4
        upper, lower = (cell[format_.begin(plane) + place] >> 4 * half & 15 for plane in PLANES)
        assert 16 * upper + lower == int(integer) % 256
