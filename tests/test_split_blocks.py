"""What reads the fields of blocks computes what it computes on the blocks."""

from pathlib import Path

import numpy as np
import pytest
import torch

from llmc.dialects import EmbeddingOp, ExpertLinearOp
from llmc.dialects.blocks import FORMATS
from llmc.pipelines.passes.bind_parameters import BindParameters
from llmc.pipelines.passes.lower_llmc import LowerLlmc
from llmc.pipelines.passes.split_blocks import SplitBlocks
from tests.arrays import Arrays
from tests.compiled import load

EXPERTS, OUTPUTS, INPUTS = 3, 6, 256
STEPS = (SplitBlocks(), BindParameters(), LowerLlmc(), "canonicalize,cse")


def layer(format_: str, rows: int) -> str:
    x, y = f"tensor<{rows}x{INPUTS}xf32>", f"tensor<{rows}x{OUTPUTS}xf32>"
    blocks = f"tensor<{OUTPUTS}x{INPUTS // FORMATS[format_].values}x!llmc.{format_}>"
    return f"""
    func.func @{format_}_{rows}(%x: {x}) -> {y} {{
      {weight_in_blocks("w", f"{OUTPUTS}x{INPUTS}", blocks)}
      %y = "llmc.quantized_linear"(%x, %b) {{operandSegmentSizes = array<i32: 1, 1, 0, 0>}}
         : ({x}, {blocks}) -> {y}
      return %y : {y}
    }}"""


def lookup(format_: str) -> str:
    blocks = f"tensor<{OUTPUTS}x{INPUTS // FORMATS[format_].values}x!llmc.{format_}>"
    return f"""
    func.func @{format_}_lookup(%ids: tensor<1x?xi64>) -> tensor<1x?x{INPUTS}xf32> {{
      {weight_in_blocks("w", f"{OUTPUTS}x{INPUTS}", blocks)}
      %y = "llmc.embedding"(%ids, %b) : (tensor<1x?xi64>, {blocks}) -> tensor<1x?x{INPUTS}xf32>
      return %y : tensor<1x?x{INPUTS}xf32>
    }}"""


def experts(format_: str) -> str:
    x, y = f"tensor<?x{INPUTS}xf32>", f"tensor<?x{OUTPUTS}xf32>"
    blocks = f"tensor<{EXPERTS}x{OUTPUTS}x{INPUTS // FORMATS[format_].values}x!llmc.{format_}>"
    return f"""
    func.func @{format_}_experts(%x: {x}, %expert: tensor<?xi64>) -> {y} {{
      {weight_in_blocks("e", f"{EXPERTS}x{OUTPUTS}x{INPUTS}", blocks)}
      %y = "llmc.expert_linear"(%x, %expert, %b) {{top_k = 2 : i64, transposed = 0 : i64}}
         : ({x}, tensor<?xi64>, {blocks}) -> {y}
      return %y : {y}
    }}"""


def weight_in_blocks(name: str, shape: str, blocks: str) -> str:
    return f"""
      %w = "llmc.parameter"() {{sources = ["{name}"]}} : () -> tensor<{shape}xf32>
      %b = "llmc.quantize"(%w) : (tensor<{shape}xf32>) -> {blocks}"""


@pytest.fixture(scope="module")
def weights() -> dict[str, np.ndarray]:
    arrays = Arrays()
    return {"w": arrays.uniform(OUTPUTS, INPUTS), "e": arrays.uniform(EXPERTS, OUTPUTS, INPUTS)}


@pytest.fixture(scope="module")
def functions(weights, tmp_path_factory):
    folder: Path = tmp_path_factory.mktemp("blocks")
    text = "".join(
        layer(format_, 1) + layer(format_, 16) + lookup(format_) + experts(format_)
        for format_ in FORMATS
    )
    tensors = {name: torch.from_numpy(values) for name, values in weights.items()}
    return load(text, STEPS, tensors, folder)


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize(("rows", "rounding"), [(1, 2**-20), (16, 2**-11)])
def test_fields_are_multiplied_as_blocks_are(functions, weights, format_, rows, rounding):
    x = Arrays().uniform(rows, INPUTS)
    y = functions(f"{format_}_{rows}")(x).to_host()
    exact = rounded(format_, weights["w"]).astype(np.float64)
    # Of many rows, each weight is rounded to float16; of one, only the sums are, to float32.
    largest = (np.abs(x) @ np.abs(exact).T).max()
    np.testing.assert_allclose(y, x @ exact.T, rtol=0, atol=largest * rounding)


@pytest.mark.parametrize("format_", FORMATS)
def test_rows_are_looked_up_in_fields(functions, weights, format_):
    ids = np.array([[5, 0, 5, 3]])
    y = functions(f"{format_}_lookup")(ids).to_host()
    np.testing.assert_array_equal(y, EmbeddingOp.reference(ids, rounded(format_, weights["w"])))


@pytest.mark.parametrize("format_", FORMATS)
def test_the_fields_of_the_chosen_experts_are_multiplied(functions, weights, format_):
    x, expert = Arrays().uniform(3, INPUTS), np.array([2, 0, 1, 1, 0, 2])
    y = functions(f"{format_}_experts")(x, expert).to_host()
    exact = rounded(format_, weights["e"]).astype(np.float64)
    expected = ExpertLinearOp.reference(x, expert, exact, 2)
    largest = np.abs(x).sum(-1).max() * np.abs(exact).max()
    np.testing.assert_allclose(y, expected, rtol=0, atol=largest * 2**-20)


def rounded(format_: str, weight: np.ndarray) -> np.ndarray:
    """What the blocks of a weight stand for."""
    return FORMATS[format_].decode(FORMATS[format_].encode(weight))
