"""The kernels that draw tokens draw what their operations say, of few tokens and of many."""

from pathlib import Path

import numpy as np
import pytest

from llmc.dialects import DrawOfAllOp, DrawOp, TopKOp
from llmc.runtime.abi import CANDIDATES, UNDECIDED
from tests.compiled import load

# Less than a register, less than the candidates, and more of them, in whole vectors or not.
VOCABULARIES = (5, 100, 321, 5000)
ROWS = 64
# Temperature, top_p, min_p.
OPTIONS = (
    (1.0, 1.0, 0.0),
    (3.0, 0.9, 0.0),
    (3.0, 1.0, 0.2),
    (9.0, 0.99, 0.1),
    (99.0, 0.7, 0.0),
    (1e-38, 0.5, 0.0),
)


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory):
    folder: Path = tmp_path_factory.mktemp("draw")
    text = "".join(
        f"""
        func.func @draw{v}(%logits: tensor<?x{v}xf32>, %best: tensor<?xi64>, %random: tensor<?xf32>,
                           %options: tensor<3xf32>, %given: i64, %found: i64)
                           -> (tensor<?xi64>, tensor<?xi64>) {{
          %top_k = arith.index_cast %given : i64 to index
          %count = arith.index_cast %found : i64 to index
          %values, %tokens = "llmc.top_k"(%logits, %count)
             : (tensor<?x{v}xf32>, index) -> (tensor<?x?xf32>, tensor<?x?xi64>)
          %few = "llmc.draw"(%logits, %values, %tokens, %best, %random, %options, %top_k)
             : (tensor<?x{v}xf32>, tensor<?x?xf32>, tensor<?x?xi64>, tensor<?xi64>, tensor<?xf32>,
                tensor<3xf32>, index) -> tensor<?xi64>
          %all = "llmc.draw_of_all"(%few, %logits, %values, %tokens, %random, %options)
             : (tensor<?xi64>, tensor<?x{v}xf32>, tensor<?x?xf32>, tensor<?x?xi64>, tensor<?xf32>,
                tensor<3xf32>) -> tensor<?xi64>
          return %few, %all : tensor<?xi64>, tensor<?xi64>
        }}"""
        for v in VOCABULARIES
    )
    function = load(text, (), {}, folder)
    return {v: function(f"draw{v}") for v in VOCABULARIES}


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_tokens_are_those_of_the_reference(functions, vocabulary):
    """Of all tokens, of one, and of some; two rows hold integers, with many ties."""
    random = np.random.default_rng(vocabulary)
    logits = random.normal(0, 3, (ROWS, vocabulary)).astype(np.float32)
    logits[:2] = np.round(logits[:2])
    best = np.where(np.arange(ROWS) == 7, -1, logits.argmax(1))
    numbers = random.random(ROWS, np.float32)
    numbers[:4] = 0, 0, 1 - 2.0**-24, 1 - 2.0**-24
    undecided = 0
    for options in OPTIONS:
        for top_k in (0, 1, 40):
            count = min(top_k + 1 if top_k else CANDIDATES, vocabulary)
            given = numbers, np.array(options, np.float32)
            results = functions[vocabulary](logits, best, *given, top_k, count)
            few, drawn = (result.to_host() for result in results)
            with np.errstate(over="ignore"):
                top = TopKOp.reference(logits.astype(np.float64), count)
                expected = DrawOp.reference(logits, *top, best, *given, top_k)
                of_all = DrawOfAllOp.reference(expected, logits, *top, *given)
            # But for numbers so near a border that a sum in float32 is on the other side of it.
            assert (few != expected).sum() <= 1
            same = few == expected
            assert (drawn != of_all)[same].sum() <= 1
            undecided += (few == UNDECIDED).sum()
    assert undecided > ROWS or vocabulary < CANDIDATES
