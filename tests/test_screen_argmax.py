"""A screened search finds the best of all logits, whatever it does not look at."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_mlir import ir

from llmc.dialects.blocks import Q8_0, decode
from llmc.dialects.float_parts import parts_of
from llmc.pipelines.passes import BindParameters, FillPanels, QuantizeWeights, ScreenArgmax
from llmc.pipelines.pipeline import LinalgStage
from llmc.pipelines.targets.cpu import CPUTarget
from llmc.pipelines.walks import find
from tests.arrays import assert_same
from tests.compiled import load
from tests.scheduled import new_context

ROWS, LENGTH, COLUMNS = 512, 96, CPUTarget().columns
DTYPES = {"f16": np.dtype(np.float16), "f32": np.dtype(np.float32)}
KINDS = ("q8_0", *DTYPES)

HEAD = f"""
    %w = "llmc.parameter"() {{sources = ["w"], llmc.stored = ["q8_0"]}}
       : () -> tensor<{ROWS}x{LENGTH}xf32>"""
TEXT = f"""
  func.func @step(%x: tensor<1x1x{LENGTH}xf32>) -> (tensor<1x{ROWS}xf32>, tensor<1xi64>) {{{HEAD}
    %n = "llmc.rms_norm"(%x)
       {{epsilon = 1.0e-5 : f64, offset = 0.0 : f64, operandSegmentSizes = array<i32: 1, 0>}}
       : (tensor<1x1x{LENGTH}xf32>) -> tensor<1x1x{LENGTH}xf32>
    %y = "llmc.linear"(%n, %w) {{operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}}
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
  func.func @all(%x: tensor<?x{LENGTH}xf32>) -> tensor<?x{ROWS}xf32> {{{HEAD}
    %y = "llmc.linear"(%x, %w) {{operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}}
       : (tensor<?x{LENGTH}xf32>, tensor<{ROWS}x{LENGTH}xf32>) -> tensor<?x{ROWS}xf32>
    return %y : tensor<?x{ROWS}xf32>
  }}
  func.func @rows(%ids: tensor<?xi64>) -> tensor<?x{LENGTH}xf32> {{{HEAD}
    %e = "llmc.embedding"(%ids, %w)
       : (tensor<?xi64>, tensor<{ROWS}x{LENGTH}xf32>) -> tensor<?x{LENGTH}xf32>
    return %e : tensor<?x{LENGTH}xf32>
  }}"""
SEVERAL = f"""
  func.func @steps(%x: tensor<?x1x{LENGTH}xf32>) -> (tensor<?x{ROWS}xf32>, tensor<?xi64>) {{{HEAD}
    %y = "llmc.linear"(%x, %w) {{operandSegmentSizes = array<i32: 1, 1, 0>, transposed = 0 : i64}}
       : (tensor<?x1x{LENGTH}xf32>, tensor<{ROWS}x{LENGTH}xf32>) -> tensor<?x1x{ROWS}xf32>
    %rows = tensor.collapse_shape %y [[0, 1], [2]]
      : tensor<?x1x{ROWS}xf32> into tensor<?x{ROWS}xf32>
    %best = "llmc.argmax"(%rows) : (tensor<?x{ROWS}xf32>) -> tensor<?xi64>
    return %rows, %best : tensor<?x{ROWS}xf32>, tensor<?xi64>
  }}
  func.func @bests(%x: tensor<?x1x{LENGTH}xf32>) -> tensor<?xi64> {{
    %rows, %best = call @steps(%x)
      : (tensor<?x1x{LENGTH}xf32>) -> (tensor<?x{ROWS}xf32>, tensor<?xi64>)
    return %best : tensor<?xi64>
  }}"""
SCREEN = ScreenArgmax(columns=COLUMNS, rows=ROWS)
UNEVEN = ROWS - 5
"""As many rows as are filled up to `ROWS`."""


def random_head(kind: str, random: np.random.Generator) -> np.ndarray:
    numbers = random.standard_normal((ROWS, LENGTH)).astype(np.float32)
    return Q8_0.encode(numbers) if kind == "q8_0" else numbers.astype(DTYPES[kind])


def head_of_one_kind(kind: str, random: np.random.Generator) -> np.ndarray:
    """All rows have the same high bits: only the low ones say which is best."""
    head = random_head(kind, random)
    if kind == "q8_0":
        head["scale"] = 1
        low = random.integers(0, 4, head["packed"].shape, np.uint8)
        head["packed"] = head["packed"][:1] & np.uint8(0xFC) | low
        return head
    parts = parts_of(head.dtype)
    bits = head.view(parts.whole)
    low = parts.whole.type(parts.rest)
    return (bits[:1] & ~low | bits & low).view(head.dtype)


@dataclass(frozen=True)
class Screened:
    """Compiled functions, and the weight of their head."""

    function: Callable
    head: np.ndarray


@pytest.fixture(scope="module", params=KINDS)
def kind(request) -> str:
    return request.param


@pytest.fixture(scope="module", params=[random_head, head_of_one_kind], ids=lambda f: f.__name__)
def screened(kind: str, request, tmp_path_factory: pytest.TempPathFactory) -> Screened:
    head = request.param(kind, np.random.default_rng(1))
    return Screened(compiled(kind, head, tmp_path_factory.mktemp("screened")), head)


def compiled(kind: str, head: np.ndarray, folder: Path) -> Callable:
    storage = kind if kind in DTYPES else "f16"
    steps = (
        *((QuantizeWeights("as-is"),) if kind == "q8_0" else ()),
        FillPanels(COLUMNS, panels=2, rows=UNEVEN),
        replace(SCREEN, storage=storage),
        BindParameters(storage),
        "canonicalize,cse",
    )
    weight = head if kind == "q8_0" else torch.from_numpy(head)
    text = text_of(kind, TEXT + SEVERAL).replace(str(ROWS), str(len(head)))
    return load(text, (*steps, *LinalgStage().steps()), {"w": weight}, folder)


def text_of(kind: str, text: str = TEXT) -> str:
    return text if kind == "q8_0" else text.replace(', llmc.stored = ["q8_0"]', "")


def check_best(screened: Screened, rows: Iterable[np.ndarray]) -> set[int]:
    """Compares the best of each row with that of all its logits; the best ones."""
    step, best = screened.function("step"), screened.function("best")
    chosen = set()
    for x in rows:
        logits, expected = step(x)
        assert best(x).to_host().tolist() == expected.to_host().tolist()
        chosen |= {int(logits.to_host().argmax())}
    return chosen


def test_the_best_of_all_is_found(screened):
    rows = list(np.random.default_rng(2).standard_normal((50, 1, 1, LENGTH)).astype(np.float32))
    # Rows of which the largest logit stands out, be it the first or the last.
    rows += [decode(screened.head)[[at]][None].astype(np.float32) for at in (0, 17, ROWS - 1)]
    assert len(check_best(screened, rows)) > 20


def test_the_best_is_found_of_numbers_whose_squares_are_0(screened):
    rows = np.random.default_rng(3).standard_normal((10, 1, 1, LENGTH)).astype(np.float32)
    check_best(screened, rows * np.float32(1e-25))


def test_the_best_of_each_of_several_rows_is_found(screened):
    random, chosen = np.random.default_rng(5), set()
    for count in (1, 2, 8, 13):
        x = random.standard_normal((count, 1, LENGTH)).astype(np.float32)
        x[count // 2] = np.nan if count > 8 else 0
        _, expected = screened.function("steps")(x)
        best = screened.function("bests")(x).to_host().tolist()
        assert best == expected.to_host().tolist()
        chosen |= set(best)
    assert -1 in chosen and len(chosen) > 10


def test_rows_are_screened_where_rough_products_are_faster():
    for kind, expected in (("q8_0", 2), ("f16", 1)):
        text = text_of(kind, TEXT + SEVERAL)
        assert count_screened(text) == expected


@pytest.mark.parametrize("fault", [np.nan, np.inf])
def test_none_is_best_where_none_is_finite(screened, fault):
    x = np.full((1, 1, LENGTH), fault, np.float32)
    assert screened.function("best")(x).to_host().tolist() == [-1]
    # And the next one does not remember.
    check_best(screened, [np.ones((1, 1, LENGTH), np.float32)])


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_fill_panels_are_never_best(kind, tmp_path):
    head = random_head(kind, np.random.default_rng(6))[:UNEVEN]
    function = compiled(kind, head, tmp_path)
    numbers = decode(head).astype(np.float32)
    best = function("best")
    for at in (0, 4, 5, UNEVEN - 1):
        x = numbers[[at]][None]
        logits, expected = function("step")(x)
        assert list(logits.shape) == [1, UNEVEN]
        assert best(x).to_host().tolist() == expected.to_host().tolist() == [at]
    several = numbers[[0, 4, UNEVEN - 1]][:, None]
    assert function("bests")(several).to_host().tolist() == [0, 4, UNEVEN - 1]
    x = np.random.default_rng(7).standard_normal((3, LENGTH)).astype(np.float32)
    y = function("all")(x).to_host()
    # Sums of 96 numbers around 1; such of quantised rows are off by half a step of some 2/127.
    assert_same(y, x @ numbers.T, tolerance=0.5 if kind == "q8_0" else 1e-4)
    ids = np.array([0, UNEVEN - 1])
    assert_same(function("rows")(ids).to_host(), numbers[ids], tolerance=2**-22)


@pytest.mark.parametrize("storage", DTYPES)
def test_weights_may_be_what_their_high_bits_do_not_say(storage, tmp_path):
    head = random_head(storage, np.random.default_rng(1))
    head[:, 0] = 0
    head[3] *= 10  # above 2, where float16 has another exponent
    head[7, 0] = np.inf
    screened = Screened(compiled(storage, head, tmp_path), head)
    rows = np.random.default_rng(2).standard_normal((40, 1, 1, LENGTH)).astype(np.float32)
    chosen = check_best(screened, rows)
    assert {3, 7} <= chosen and len(chosen) > 5


def test_all_readers_read_both_parts(screened):
    head = decode(screened.head).astype(np.float32)
    ids = np.array([5, 0, ROWS - 1])
    exact = screened.head.dtype != Q8_0.dtype
    rows = screened.function("rows")(ids).to_host()
    assert_same(rows, head[ids], tolerance=0 if exact else 2**-22)
    if exact:
        x = np.random.default_rng(4).standard_normal((3, LENGTH)).astype(np.float32)
        y = screened.function("all")(x).to_host()
        # Sums of 96 numbers around 1.
        assert_same(y, x @ head.T, tolerance=1e-4)


def count_screened(text: str, screen: ScreenArgmax = SCREEN) -> int:
    with new_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        for pass_ in (QuantizeWeights("as-is"), screen):
            pass_.apply(module)
        module.operation.verify()
        return len(find(module.operation, "llmc.screened_argmax"))


def is_screened(text: str, screen: ScreenArgmax = SCREEN) -> bool:
    return count_screened(text, screen) > 0


def test_a_head_is_screened_where_that_is_of_use():
    floats = text_of("f16")
    assert is_screened(floats) and is_screened(floats, replace(SCREEN, storage="f16"))
    assert not is_screened(floats, replace(SCREEN, storage="bf16"))
    transposed = floats.partition("  func.func @all")[0].replace("transposed = 0", "transposed = 1")
    transposed = transposed.replace(f"{ROWS}x{LENGTH}", f"{LENGTH}x{ROWS}")
    assert not is_screened(transposed, replace(SCREEN, rows=LENGTH))
    assert is_screened(TEXT)
    assert is_screened(TEXT.replace("@best(", "@step.best("))  # the name that the copy would have
    assert not is_screened(TEXT, ScreenArgmax(columns=COLUMNS, rows=ROWS + 1))
    assert not is_screened(TEXT, ScreenArgmax(columns=3, rows=1))
    assert not is_screened(TEXT.replace('"q8_0"', '"q4_0"'))
    uses_logits = TEXT.replace(
        "    return %best : tensor<1xi64>",
        f"""    %s = tensor.extract_slice %row[0, 0] [1, 1] [1, 1]
       : tensor<1x{ROWS}xf32> to tensor<1x1xf32>
    %same = "llmc.argmax"(%s) : (tensor<1x1xf32>) -> tensor<1xi64>
    return %same : tensor<1xi64>""",
    )
    assert not is_screened(uses_logits)
    for text in (TEXT, floats):
        with_bias = text.replace(
            '%y = "llmc.linear"(%n, %w) {operandSegmentSizes = array<i32: 1, 1, 0>',
            f"""%b = arith.constant dense<1.0> : tensor<{ROWS}xf32>
    %y = "llmc.linear"(%n, %w, %b) {{operandSegmentSizes = array<i32: 1, 1, 1>""",
        ).replace(
            f"tensor<{ROWS}x{LENGTH}xf32>) -> tensor<1x1",
            f"tensor<{ROWS}x{LENGTH}xf32>, tensor<{ROWS}xf32>) -> tensor<1x1",
        )
        assert with_bias != text
        assert not is_screened(with_bias)
