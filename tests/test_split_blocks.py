"""A layer on the fields of blocks computes what it computes on the blocks."""

from pathlib import Path

import numpy as np
import pytest
import torch

from llmc.dialects.blocks import FORMATS
from llmc.pipelines.passes.bind_parameters import BindParameters
from llmc.pipelines.passes.lower_llmc import LowerLlmc
from llmc.pipelines.passes.split_blocks import SplitBlocks
from tests.arrays import Arrays
from tests.compiled import load

OUTPUTS, INPUTS = 6, 256
STEPS = (SplitBlocks(), BindParameters(), LowerLlmc(), "canonicalize,cse")


def layer(format_: str, rows: int) -> str:
    x, y = f"tensor<{rows}x{INPUTS}xf32>", f"tensor<{rows}x{OUTPUTS}xf32>"
    dense = f"tensor<{OUTPUTS}x{INPUTS}xf32>"
    blocks = f"tensor<{OUTPUTS}x{INPUTS // FORMATS[format_].values}x!llmc.{format_}>"
    return f"""
    func.func @{format_}_{rows}(%x: {x}) -> {y} {{
      %w = "llmc.parameter"() {{sources = ["w"]}} : () -> {dense}
      %b = "llmc.quantize"(%w) : ({dense}) -> {blocks}
      %y = "llmc.quantized_linear"(%x, %b) {{operandSegmentSizes = array<i32: 1, 1, 0, 0>}}
         : ({x}, {blocks}) -> {y}
      return %y : {y}
    }}"""


@pytest.fixture(scope="module")
def weight() -> np.ndarray:
    return Arrays().uniform(OUTPUTS, INPUTS)


@pytest.fixture(scope="module")
def functions(weight, tmp_path_factory):
    folder: Path = tmp_path_factory.mktemp("blocks")
    text = "".join(layer(format_, rows) for format_ in FORMATS for rows in (1, 16))
    return load(text, STEPS, {"w": torch.from_numpy(weight)}, folder)


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize(("rows", "rounding"), [(1, 2**-20), (16, 2**-11)])
def test_fields_are_multiplied_as_blocks_are(functions, weight, format_, rows, rounding):
    x = Arrays().uniform(rows, INPUTS)
    y = functions(f"{format_}_{rows}")(x).to_host()
    exact = FORMATS[format_].decode(FORMATS[format_].encode(weight)).astype(np.float64)
    # Of many rows, each weight is rounded to float16; of one, only the sums are, to float32.
    largest = (np.abs(x) @ np.abs(exact).T).max()
    np.testing.assert_allclose(y, x @ exact.T, rtol=0, atol=largest * rounding)
