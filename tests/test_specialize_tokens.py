"""A specialised copy computes what the original does, and nothing in it is of an open size."""

import numpy as np
import pytest
from torch_mlir import ir

from llmc import dialects
from llmc.pipelines.driver.execution import run
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.passes.drop_assertions import DropAssertions
from llmc.pipelines.passes.number_layers import NumberLayers
from llmc.pipelines.passes.specialize_tokens import SpecializeTokens
from llmc.pipelines.passes.thread_kv_cache import ThreadKVCache
from llmc.pipelines.rewriting.functions import functions
from llmc.runtime import abi
from tests.arrays import assert_same
from tests.interpreter import Machine
from tests.programs.blocks import MLP, Attention, Experts
from tests.programs.models import Model
from tests.programs.observation import Program

MODEL = Model(
    kinds=((Attention(groups=2), MLP()), (Attention(window=2), Experts())),
    layers=(0, 1, 0),
    variants=(abi.PREFILL, abi.DECODE_BATCH),
)
STATE: tuple[Pass | str, ...] = (NumberLayers(), ThreadKVCache(), "canonicalize,cse")
SIZES = pytest.mark.parametrize(
    ("function", "options"),
    [
        (abi.PREFILL, {"tokens": 1}),
        (abi.PREFILL, {"tokens": 3}),
        (abi.DECODE_BATCH, {"tokens": 0, "batch": 1}),
        (abi.DECODE_BATCH, {"tokens": 0, "batch": 2}),
    ],
)


def specialized(steps: tuple[Pass | str, ...], function: str, options: dict[str, int]) -> Machine:
    context = ir.Context()
    dialects.load(context)
    program = Program.of(MODEL, context)
    one = SpecializeTokens(function=function, copy="copy", **options)
    run((DropAssertions(), *steps, one), program.module)
    return Machine(program.module, program.weights)


def tokens_and_positions(options: dict[str, int]) -> tuple[np.ndarray, np.ndarray]:
    shape = (options.get("batch", 1), options["tokens"] or 1)
    tokens = np.random.default_rng(0).integers(MODEL.vocabulary, size=shape)
    return tokens, np.broadcast_to(np.arange(shape[1]), shape)


@SIZES
def test_a_copy_computes_the_same(function, options):
    machine = specialized((), function, options)
    arguments = tokens_and_positions(options)
    (expected,) = machine.call(function, *arguments)
    (actual,) = machine.call("copy", *arguments)
    assert_same(actual, expected, 1e-12)


@SIZES
def test_a_copy_remembers_the_same(function, options):
    tokens, _ = tokens_and_positions(options)
    results = []
    for name in (function, "copy"):
        machine = specialized(STATE, function, options)
        machine.call(abi.RESET, np.int64(2), np.int64(8))
        state = np.zeros(len(tokens), np.int64), np.int64(0)
        first = machine.call(name, tokens, *state, np.int64(0))
        results.append((*first, *machine.call(name, tokens, *state, np.int64(tokens.shape[1]))))
    for actual, expected in zip(*results, strict=True):
        assert_same(actual, expected, 1e-12)


@SIZES
def test_a_copy_has_only_static_sizes(function, options):
    context = ir.Context()
    dialects.load(context)
    module = Program.of(MODEL, context).module
    run((SpecializeTokens(function=function, copy="copy", **options),), module)
    copies = [each for each in functions(module) if each.sym_name.value.startswith("copy")]
    assert len(copies) == 3
    for copy in copies:
        assert "?" not in str(copy)
