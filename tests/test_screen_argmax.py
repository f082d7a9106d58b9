"""A screened search finds the best of all logits, whatever it does not look at."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from torch_mlir import ir

from llmc.dialects.blocks import Q8_0
from llmc.pipelines.passes import BindParameters, QuantizeWeights, ScreenArgmax
from llmc.pipelines.passes.base import find
from llmc.pipelines.pipeline import LinalgStage
from llmc.pipelines.targets.cpu import CPUTarget
from tests.arrays import assert_same
from tests.compiled import load
from tests.scheduled import new_context

ROWS, LENGTH, COLUMNS = 512, 96, CPUTarget().columns

HEAD = f"""
    %w = "llmc.parameter"() {{sources = ["w"], llmc.stored = ["q8_0"]}}
       : () -> tensor<{ROWS}x{LENGTH}xf32>"""
TEXT = f"""
  func.func @step(%x: tensor<1x1x{LENGTH}xf32>) -> (tensor<1x{ROWS}xf32>, tensor<1xi64>) {{{HEAD}
    %y = "llmc.linear"(%x, %w) {{operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}}
       : (tensor<1x1x{LENGTH}xf32>, tensor<{ROWS}x{LENGTH}xf32>) -> tensor<1x1x{ROWS}xf32>
    %row = tensor.collapse_shape %y [[0, 1], [2]] : tensor<1x1x{ROWS}xf32> into tensor<1x{ROWS}xf32>
    %best = "llmc.argmax"(%row) : (tensor<1x{ROWS}xf32>) -> tensor<1xi64>
    return %row, %best : tensor<1x{ROWS}xf32>, tensor<1xi64>
  }}
  func.func @best(%x: tensor<1x1x{LENGTH}xf32>) -> tensor<1xi64> {{
    %row, %best = call @step(%x)
      : (tensor<1x1x{LENGTH}xf32>) -> (tensor<1x{ROWS}xf32>, tensor<1xi64>)
    return %best : tensor<1xi64>
  }}
  func.func @rows(%ids: tensor<?xi64>) -> tensor<?x{LENGTH}xf32> {{{HEAD}
    %e = "llmc.embedding"(%ids, %w)
       : (tensor<?xi64>, tensor<{ROWS}x{LENGTH}xf32>) -> tensor<?x{LENGTH}xf32>
    return %e : tensor<?x{LENGTH}xf32>
  }}"""
SCREEN = ScreenArgmax(columns=COLUMNS, rows=ROWS)


def random_head(random: np.random.Generator) -> np.ndarray:
    return Q8_0.encode(random.standard_normal((ROWS, LENGTH)).astype(np.float32))


def head_of_one_kind(random: np.random.Generator) -> np.ndarray:
    """All rows have the same high bits: only the low ones say which is best."""
    blocks = random_head(random)
    blocks["scale"] = 1
    low = random.integers(0, 4, blocks["packed"].shape, np.uint8)
    blocks["packed"] = blocks["packed"][:1] & np.uint8(0xFC) | low
    return blocks


@pytest.fixture(scope="module", params=[random_head, head_of_one_kind], ids=lambda f: f.__name__)
def head(request) -> np.ndarray:
    return request.param(np.random.default_rng(1))


@pytest.fixture(scope="module")
def functions(head: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> Callable:
    folder: Path = tmp_path_factory.mktemp("screened")
    steps = (QuantizeWeights("as-is"), SCREEN, BindParameters(), "canonicalize,cse")
    return load(TEXT, (*steps, *LinalgStage().steps()), {"w": head}, folder)


def test_the_best_of_all_is_found(functions, head):
    step, best = functions("step"), functions("best")
    random, chosen = np.random.default_rng(2), set()
    rows = list(random.standard_normal((50, 1, 1, LENGTH)).astype(np.float32))
    # Rows of which the largest logit stands out, be it the first or the last.
    rows += [Q8_0.decode(head)[[at]][None] for at in (0, 17, ROWS - 1)]
    for x in rows:
        logits, expected = step(x)
        assert best(x).to_host().tolist() == expected.to_host().tolist()
        chosen |= {int(logits.to_host().argmax())}
    assert len(chosen) > 20


@pytest.mark.parametrize("fault", [np.nan, np.inf])
def test_none_is_best_where_none_is_finite(functions, fault):
    x = np.full((1, 1, LENGTH), fault, np.float32)
    assert functions("best")(x).to_host().tolist() == [-1]
    # And the next one does not remember.
    x = np.ones((1, 1, LENGTH), np.float32)
    assert functions("best")(x).to_host() == functions("step")(x)[1].to_host()


def test_all_readers_read_planes(functions, head):
    ids = np.array([5, 0, ROWS - 1])
    assert_same(functions("rows")(ids).to_host(), Q8_0.decode(head)[ids], tolerance=2**-22)


def screened(text: str, screen: ScreenArgmax = SCREEN) -> bool:
    with new_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        for pass_ in (QuantizeWeights("as-is"), screen):
            pass_.apply(module)
        module.operation.verify()
        return bool(find(module.operation, "llmc.screened_argmax"))


def test_a_head_is_screened_where_that_is_of_use():
    assert screened(TEXT)
    assert screened(TEXT.replace("@best(", "@step.best("))  # the name that the copy would have
    assert not screened(TEXT, ScreenArgmax(columns=COLUMNS, rows=ROWS + 1))
    assert not screened(TEXT, ScreenArgmax(columns=3, rows=1))
    assert not screened(TEXT.replace('"q8_0"', '"q4_0"'))
    uses_logits = TEXT.replace(
        "    return %best : tensor<1xi64>",
        f"""    %s = tensor.extract_slice %row[0, 0] [1, 1] [1, 1]
       : tensor<1x{ROWS}xf32> to tensor<1x1xf32>
    %same = "llmc.argmax"(%s) : (tensor<1x1xf32>) -> tensor<1xi64>
    return %same : tensor<1xi64>""",
    )
    assert not screened(uses_logits)
    with_bias = TEXT.replace(
        '%y = "llmc.linear"(%x, %w) {operandSegmentSizes = array<i32: 1, 1, 0>',
        f"""%b = arith.constant dense<1.0> : tensor<{ROWS}xf32>
    %y = "llmc.linear"(%x, %w, %b) {{operandSegmentSizes = array<i32: 1, 1, 1>""",
    ).replace(
        f"tensor<{ROWS}x{LENGTH}xf32>) -> tensor<1x1",
        f"tensor<{ROWS}x{LENGTH}xf32>, tensor<{ROWS}xf32>) -> tensor<1x1",
    )
    assert with_bias != TEXT
    assert not screened(with_bias)
