"""Each prefix of `llmc-import` keeps what PyTorch computes of random programs."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmc.pipelines.driver.execution import run, single_passes
from llmc.pipelines.pipeline import ImportStage
from llmc.runtime import abi
from tests.interpreter import Machine
from tests.programs.observation import EXACT, close
from tests.programs.properties import PropertyError, bounded
from tests.programs.stages import as_step, below_module
from tests.programs.torch_programs import TorchPlan, TorchProgram
from tests.programs.torch_steps import STEPS

_names = st.lists(st.sampled_from(sorted(STEPS)), min_size=2, max_size=5).map(tuple)
plans = st.builds(TorchPlan, _names, layer=_names, calls=st.integers(1, 3))


def hold(plan: TorchPlan) -> None:
    """PropertyError at the first pass after which the program is another one."""
    program = TorchProgram.of(plan)
    first, done = str(program.module), []
    compare(program, first, done)
    with program.module.context:
        steps = list(single_passes(ImportStage().steps()))
    for single in steps:
        before = str(program.module)
        done.append(below_module(single))
        try:
            run((as_step(single),), program.module)
        except Exception as error:
            raise PropertyError(str(error), first, ",".join(done)) from error
        if str(program.module) != before:
            compare(program, first, done)


def compare(program: TorchProgram, before: str, done: Sequence[str]) -> None:
    """PropertyError if the module, made of `before` by the passes `done`, is not the program."""
    try:
        (y,) = Machine(program.module, program.weights).call(abi.PREFILL, program.x)
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        raise PropertyError(problem, before, ",".join(done)) from error
    if not close(y, program.y, EXACT):
        problem = f"it gives {y.tolist()}, not {program.y.tolist()}"
        raise PropertyError(problem, before, ",".join(done))


@pytest.mark.parametrize("step", sorted(STEPS))
def test_each_prefix_keeps_the_values_of_a_step(step):
    hold(TorchPlan((), layer=(step,), calls=2))


def test_each_prefix_keeps_the_values_of_random_programs(request):
    @bounded(3, request)
    @given(plans)
    def holds(plan: TorchPlan) -> None:
        hold(plan)

    holds()
