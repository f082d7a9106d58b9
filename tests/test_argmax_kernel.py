"""Argmax finds what numpy finds, wherever the largest stands, as a kernel and within another."""

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


WORKGROUPS, PANELS = 4, 8


@pytest.fixture(scope="module")
def best_of_copy(tmp_path_factory: pytest.TempPathFactory):
    """A kernel that copies a row, and what is the best of it."""
    row = f"tensor<1x{PANELS}x16xf32>"
    share = PANELS // WORKGROUPS
    text = f"""
        func.func private @copy(%x: {row}) -> {row} attributes {{llmc.kernel = "copy"}} {{
          %room = tensor.empty() : {row}
          %y = scf.forall (%i) = (0) to ({PANELS}) step ({share})
              shared_outs(%out = %room) -> ({row}) {{
            %part = tensor.extract_slice %x[0, %i, 0] [1, {share}, 16] [1, 1, 1]
                : {row} to tensor<1x{share}x16xf32>
            scf.forall.in_parallel {{
              tensor.parallel_insert_slice %part into %out[0, %i, 0] [1, {share}, 16] [1, 1, 1]
                  : tensor<1x{share}x16xf32> into {row}
            }}
          }}
          return %y : {row}
        }}
        func.func @best(%x: {row}) -> (tensor<1x{PANELS * 16}xf32>, tensor<1xi64>) {{
          %y = call @copy(%x) : ({row}) -> {row}
          %row = tensor.collapse_shape %y [[0], [1, 2]] : {row} into tensor<1x{PANELS * 16}xf32>
          %best = "llmc.argmax"(%row) : (tensor<1x{PANELS * 16}xf32>) -> tensor<1xi64>
          return %row, %best : tensor<1x{PANELS * 16}xf32>, tensor<1xi64>
        }}"""
    return load(text, (), {}, tmp_path_factory.mktemp("best"))("best")


def test_best_of_the_row_that_a_kernel_computes(best_of_copy):
    """Many times, as the kernel leaves its counter for the next."""
    rows = rows_of(PANELS * 16)
    for row, expected in zip(rows, ArgmaxOp.reference(rows), strict=True):
        copied, best = best_of_copy(row.reshape(1, PANELS, 16))
        np.testing.assert_array_equal(copied.to_host()[0], row)
        assert best.to_host().tolist() == [expected]
