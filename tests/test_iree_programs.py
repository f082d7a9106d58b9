"""Random programs compiled by all of the pipeline and run by IREE, beside the interpreter."""

from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from llmc.pipelines.pipeline import ImportedToIREE, IREEStage
from llmc.runtime import abi
from tests import compiled
from tests.programs.blocks import MLP, Attention, Experts, Norm
from tests.programs.models import Model
from tests.programs.observation import Program, close
from tests.programs.properties import PropertyError, bounded
from tests.programs.stages import CONTEXT
from tests.programs.strategies import models

VARIANTS = (abi.PREFILL, abi.DECODE, abi.DECODE_BATCH)
FUNCTIONS = (abi.RESET, abi.PREFILL_BATCH, *VARIANTS)

# A KV cache of float16 rounds keys and values to 11 bits.
TOLERANCES = {"f32": 1e-4, "f16": 4 * 2**-11}
# Half of the last place of a float16; of a float32 twice that place, for sums add up roundings.
ROUNDINGS = {"f32": 2**-22, "f16": 2**-12}


def check(plan: Model, storage: str, folder: Path) -> None:
    """PropertyError where IREE computes something else than the interpreter."""
    program = Program.of(plan, CONTEXT)
    weights = {name: torch.from_numpy(value).float() for name, value in program.weights.items()}
    steps = ImportedToIREE(storage=storage).steps()[: -len(IREEStage().steps())]
    function = compiled.load(str(program.module), steps, weights, folder)

    def call(name: str, *arguments: np.ndarray) -> list[np.ndarray]:
        scalars = [a if isinstance(a, np.ndarray) else int(a) for a in arguments]
        results = function(name)(*scalars) or ()
        results = results if isinstance(results, tuple) else (results,)
        # Copies: the device takes the memory back with the results.
        return [result.to_host().copy() for result in results]

    tolerance = TOLERANCES[storage]
    runs = list(program.runs(call, FUNCTIONS))
    if all(close(actual, expected, tolerance) for _, actual, expected in runs):
        return
    roundings = [program.rounded(ROUNDINGS[storage], seed) for seed in range(8)]
    reached = [list(each.runs(call, FUNCTIONS)) for each in roundings]
    for (what, actual, expected), *others in zip(runs, *reached, strict=True):
        # Experts that tie, or a norm of next to nothing, make much of the last bits.
        reach = max(float(np.linalg.norm(other - expected)) for _, _, other in others)
        if not close(actual, expected, tolerance, reach):
            pipeline = f"llmc-to-iree{{storage={storage}}}"
            raise PropertyError(f"{what} of {plan}", str(program.module), pipeline)


def test_random_models(request, tmp_path):
    @bounded(2, request)
    @given(models, st.sampled_from(["f32", "f16"]))
    def holds(model: Model, storage: str) -> None:
        # Of a width that blocks do not have: a program cannot ask the archive for blocks by name.
        # Of several tiles of tokens: IREE 3.13 fails to store two results of a single one.
        plan = replace(model, variants=VARIANTS, width=8, vocabulary=37)
        steps = [*chain(*plan.kinds), *plan.before]
        # IREE 3.13 has no room on the stack for the scores of a single head in decode.
        assume(all(step.heads > 1 for step in steps if isinstance(step, Attention)))
        # IREE 3.13 crashes where there are no layers, as in no model.
        assume(plan.layers)
        # No router chooses an expert twice for a row.
        assume(all(step.top_k <= step.experts for step in steps if isinstance(step, Experts)))
        # What is rounded may choose another expert.
        assume(storage == "f32" or not any(isinstance(step, Experts) for step in steps))
        check(plan, storage, tmp_path)

    holds()


def test_what_is_passed_to_a_layer_may_be_part_of_a_buffer(tmp_path):
    kind = (Attention(residual=False), MLP(gated=False, residual=False))
    plan = Model((kind,), layers=(0, 0), variants=VARIANTS, before=(Norm(),), embedding="checked")
    check(plan, "f32", tmp_path)


@pytest.mark.parametrize("storage", [pytest.param("f32", marks=pytest.mark.thorough), "f16"])
def test_layers_that_persist(storage, tmp_path):
    """Three layers in the phases of one kernel, and a fourth of another kind."""
    attention, mlp = Attention(heads=4, groups=2, channels=16), MLP(width=64)
    wide = replace(mlp, width=96)
    plan = Model(((attention, mlp), (attention, wide)), (0, 0, 0, 1), VARIANTS, width=64)
    check(plan, storage, tmp_path)
