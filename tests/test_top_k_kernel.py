"""The kernel of top-k finds what a stable sort finds, wherever the largest numbers stand."""

from pathlib import Path

import numpy as np
import pytest

from llmc.dialects import TopKOp
from tests.compiled import load

# Less than a register, a part of a group, whole groups, and a last one that overlaps.
WIDTHS = (1, 5, 128, 321, 5000)


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory):
    folder: Path = tmp_path_factory.mktemp("top_k")
    text = "".join(
        f"""
        func.func @top{width}(%x: tensor<?x{width}xf32>, %k: i64) -> (tensor<?x?xf32>, tensor<?x?xi64>) {{
          %count = arith.index_cast %k : i64 to index
          %values, %places = "llmc.top_k"(%x, %count)
            : (tensor<?x{width}xf32>, index) -> (tensor<?x?xf32>, tensor<?x?xi64>)
          return %values, %places : tensor<?x?xf32>, tensor<?x?xi64>
        }}"""  # noqa: E501
        for width in WIDTHS
    )
    function = load(text, (), {}, folder)
    return {width: function(f"top{width}") for width in WIDTHS}


def rows_of(width: int) -> np.ndarray:
    """Random rows; few values, with many ties; sorted both ways; all the same; with infinities."""
    random = np.random.default_rng(width)
    drawn = random.standard_normal((4, width))
    infinite = np.where(drawn < 0, -np.inf, np.where(drawn > 2, np.inf, drawn))
    ascending = np.arange(width)
    rows = [drawn, random.integers(0, 3, (4, width)), infinite]
    rows += [[ascending], [-ascending], np.zeros((1, width)), np.full((1, width), -np.inf)]
    return np.concatenate(rows).astype(np.float32)


@pytest.mark.parametrize("width", WIDTHS)
def test_largest_are_those_of_a_stable_sort(functions, width):
    rows = rows_of(width)
    for count in {0, 1, width // 2, min(width, 300), min(width, 50)}:
        values, places = functions[width](rows, count)
        expected_values, expected_places = TopKOp.reference(rows, count)
        np.testing.assert_array_equal(places.to_host(), expected_places)
        np.testing.assert_array_equal(values.to_host(), expected_values)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_row_with_nan_harms_no_other(functions, width):
    rows = rows_of(width)
    broken = np.full_like(rows, np.nan)
    broken[:, width // 2 :] = np.inf
    _, places = functions[width](np.stack([broken, rows], 1).reshape(-1, width), min(width, 9))
    places = places.to_host()
    assert ((places >= 0) & (places < width)).all()
    np.testing.assert_array_equal(places[1::2], TopKOp.reference(rows, min(width, 9))[1])
