"""The kernel of the nucleus keeps what a sort by size keeps, wherever the large numbers stand."""

from pathlib import Path

import numpy as np
import pytest

from llmc.dialects import NucleusOp
from tests.compiled import load

# Less than a register, whole vectors, and some more.
WIDTHS = (1, 5, 128, 321, 5000)
SHARES = (1e-6, 0.3, 0.5, 0.9, 1.0)


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory):
    folder: Path = tmp_path_factory.mktemp("nucleus")
    text = "".join(
        f"""
        func.func @nucleus{width}(%x: tensor<?x{width}xf32>, %share: tensor<1xf32>) -> tensor<?x{width}xf32> {{
          %kept = "llmc.nucleus"(%x, %share) : (tensor<?x{width}xf32>, tensor<1xf32>) -> tensor<?x{width}xf32>
          return %kept : tensor<?x{width}xf32>
        }}"""  # noqa: E501
        for width in WIDTHS
    )
    function = load(text, (), {}, folder)
    return {width: function(f"nucleus{width}") for width in WIDTHS}


@pytest.mark.parametrize("width", WIDTHS)
def test_the_largest_are_kept(functions, width):
    """Integers, whose sums are exact: random, with many ties, sorted both ways, all the same; and
    one that is far larger or smaller than the others.
    """
    random, ascending = np.random.default_rng(width), np.arange(width)
    rows = [random.integers(0, 4000, (4, width)), random.integers(0, 3, (4, width))]
    rows += [[ascending], [ascending[::-1]], np.zeros((1, width)), np.full((1, width), 7)]
    x = np.concatenate(rows).astype(np.float32)
    x[:2, width // 2] = 2.0**-100, 2.0**100
    for share in SHARES:
        share = np.array([share], np.float32)
        kept = functions[width](x, share).to_host()
        np.testing.assert_array_equal(kept, NucleusOp.reference(x, share))
