"""Cells of a KV cache hold the blocks of columns, byte by byte in the order that kernels read."""

import numpy as np
import pytest

from llmc.dialects.blocks import Q8_0
from llmc.dialects.cache_cells import COLUMNS, INTEGERS, KEYS, VALUES, cells_of

FORMATS = pytest.mark.parametrize("format_", [KEYS, VALUES], ids=["keys", "values"])


def blocks(columns: int) -> np.ndarray:
    """Blocks `[2, columns, 3]` of two heads."""
    numbers = np.random.default_rng(columns).standard_normal((2, columns, 3 * Q8_0.values))
    return Q8_0.encode(numbers)


@FORMATS
def test_what_is_packed_is_found_again(format_):
    rows = blocks(37)
    cells = format_.pack(rows)
    assert cells.shape == (2, 3, 3)
    assert cells_of(cells) == format_
    again = format_.unpack(cells)
    np.testing.assert_array_equal(again[:, :37], rows)
    assert not again[:, 37:].view(np.uint8).any(), "columns of padding are zeros"


@FORMATS
def test_a_cell_takes_the_bytes_of_its_blocks(format_):
    assert format_.bytes == format_.dtype.itemsize == COLUMNS * Q8_0.bytes


@pytest.mark.parametrize(("column", "block", "channel"), [(0, 0, 0), (21, 1, 6), (47, 2, 31)])
def test_words_are_channels_of_keys_and_columns_of_values(column, block, channel):
    rows = blocks(48)
    integer = Q8_0.integers(rows)[1, column, block, channel]
    panel, within = divmod(column, 16)
    places = {
        KEYS: INTEGERS + channel // 4 * 64 + within * 4 + channel % 4,
        VALUES: INTEGERS + within // 4 * 128 + channel * 4 + within % 4,
    }
    for format_, place in places.items():
        cell = format_.pack(rows)[1, panel, block]
        stored = np.frombuffer(cell.tobytes(), np.int8)
        assert stored[place] == integer
        assert stored[2 * within : 2 * within + 2].view("<f2") == rows["scale"][1, column, block]
