"""The Walsh-Hadamard transform of blocks: what it is, and what it is for."""

import numpy as np
import pytest

from llmc.dialects.blocks import Q8_0
from llmc.dialects.walsh_hadamard import walsh_hadamard

MATRIX = np.array(
    [[(-1) ** (row & column).bit_count() for column in range(32)] for row in range(32)]
)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_blocks_are_multiplied_by_a_matrix_of_signs(dtype):
    x = np.random.default_rng(0).standard_normal((2, 5, 96)).astype(dtype)
    expected = (x.reshape(2, 5, 3, 32).astype(np.float64) @ MATRIX / 32**0.5).reshape(x.shape)
    found = walsh_hadamard(x)
    assert found.dtype == dtype
    # Five sums of 32 numbers, by a scale that float32 holds.
    np.testing.assert_allclose(found, expected, atol=2e-6)
    np.testing.assert_allclose(walsh_hadamard(found), x, atol=2e-6)


def test_one_large_channel_makes_no_steps_coarse():
    x = np.random.default_rng(1).standard_normal((1000, 32)).astype(np.float32)
    x[:, 7] += 50
    rounded = Q8_0.decode(Q8_0.encode(x))
    again = walsh_hadamard(Q8_0.decode(Q8_0.encode(walsh_hadamard(x))))
    assert np.std(again - x) < np.std(rounded - x) / 3
