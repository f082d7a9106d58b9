"""The kernel of argmax finds what numpy finds, wherever the largest number stands."""

from pathlib import Path

import numpy as np
import pytest

from llmc.dialects import ArgmaxOp
from tests.compiled import load

# Less than a register, whole pieces, and a last piece that overlaps.
WIDTHS = (1, 5, 128, 321)


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory):
    folder: Path = tmp_path_factory.mktemp("argmax")
    text = "".join(
        f"""
        func.func @best{width}(%x: tensor<?x{width}xf32>) -> tensor<?xi64> {{
          %best = "llmc.argmax"(%x) : (tensor<?x{width}xf32>) -> tensor<?xi64>
          return %best : tensor<?xi64>
        }}"""
        for width in WIDTHS
    )
    function = load(text, (), {}, folder)
    return {width: function(f"best{width}") for width in WIDTHS}


def rows_of(width: int) -> np.ndarray:
    """Random rows; rows of few values, with ties; each place the largest; what is not finite."""
    random = np.random.default_rng(width)
    rows = [random.standard_normal((8, width)), random.integers(0, 3, (8, width))]
    peaks = np.full((width, width), -1.0)
    np.fill_diagonal(peaks, 2.0)
    faults = random.standard_normal((4 * width, width))
    for number, fault in enumerate((np.nan, -np.nan, np.inf, -np.inf)):
        np.fill_diagonal(faults[number * width :], fault)
    rows += [peaks, faults, np.full((1, width), -np.inf), np.zeros((1, width))]
    return np.concatenate(rows).astype(np.float32)


@pytest.mark.parametrize("width", WIDTHS)
def test_best_is_numpys(functions, width):
    rows = rows_of(width)
    best = functions[width](rows).to_host()
    np.testing.assert_array_equal(best, ArgmaxOp.reference(rows))
    assert (best == -1).any()
