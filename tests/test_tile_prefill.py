"""A prompt run in tiles gives what it gives at once, however many tokens it has."""

import numpy as np
import pytest
from torch_mlir import ir

from llmc import dialects
from llmc.pipelines.driver.execution import run
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.passes.drop_assertions import DropAssertions
from llmc.pipelines.passes.number_layers import NumberLayers
from llmc.pipelines.passes.select_last_token import SelectLastToken
from llmc.pipelines.passes.thread_kv_cache import ThreadKVCache
from llmc.pipelines.passes.tile_prefill import TilePrefill
from llmc.runtime import abi
from tests.arrays import assert_same
from tests.interpreter import Machine
from tests.programs.blocks import MLP, Attention, Experts
from tests.programs.models import Model
from tests.programs.observation import Program

TILE = 3
CAPACITY = 9
STATE: tuple[Pass | str, ...] = (
    DropAssertions(),
    SelectLastToken(),
    NumberLayers(),
    ThreadKVCache(),
    "canonicalize,cse",
)
MODEL = Model(
    kinds=((Attention(groups=2), MLP()), (Attention(window=2), Experts())),
    layers=(0, 1, 0),
    variants=(abi.PREFILL, abi.DECODE),
)


def machine(*steps: Pass | str) -> Machine:
    context = ir.Context()
    dialects.load(context)
    program = Program.of(MODEL, context)
    run((*STATE, *steps), program.module)
    loaded = Machine(program.module, program.weights)
    loaded.call(abi.RESET, np.int64(2), np.int64(CAPACITY))
    return loaded


def run_prompt(loaded: Machine, tokens: int, past: int) -> list[np.ndarray]:
    """What follows a prompt, and then one token more."""
    ids = np.random.default_rng(past).integers(MODEL.vocabulary, size=(1, tokens))
    state = np.zeros(1, np.int64), np.int64(1)
    first = loaded.call(abi.PREFILL, ids, *state, np.int64(past))
    return [*first, *loaded.call(abi.DECODE, ids[:, :1], *state, np.int64(past + tokens))]


@pytest.mark.parametrize("tokens", [2, 3, 4, 6, 7, 8])
def test_tiles_give_what_the_whole_gives(tokens):
    whole, tiled = machine(), machine(TilePrefill(tokens=TILE))
    for actual, expected in zip(
        run_prompt(tiled, tokens, 0), run_prompt(whole, tokens, 0), strict=True
    ):
        assert_same(actual, expected, 1e-12)


def test_a_tile_continues_a_text_and_may_end_past_the_capacity():
    results = []
    for loaded in (machine(), machine(TilePrefill(tokens=TILE))):
        results.append([*run_prompt(loaded, 2, 0), *run_prompt(loaded, 4, 3)])
    for actual, expected in zip(*results, strict=True):
        assert_same(actual, expected, 1e-12)
