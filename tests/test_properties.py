"""Properties of passes and pipelines on random programs: values stay, and nothing crashes."""

import re
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch_mlir import ir

from llmc.pipelines.driver.execution import SinglePass, run, single_passes
from llmc.pipelines.passes import PASSES
from llmc.pipelines.passes.base import Pass, PassError, walk
from llmc.pipelines.passes.bind_parameters import STORAGES
from llmc.pipelines.pipeline import PIPELINES, Pipeline
from tests.programs.blocks import Experts
from tests.programs.functions import Function
from tests.programs.models import Model
from tests.programs.observation import EXACT, Program
from tests.programs.properties import PropertyError, bounded
from tests.programs.stages import (
    CONTEXT,
    after,
    applies,
    as_step,
    below_module,
    copy,
    steps_before,
    steps_to_iree,
)
from tests.programs.step import Step as PlanStep
from tests.programs.strategies import functions, models

ROOT = Path(__file__).parent.parent

# How far a pass may go from what it was given. The weights are such that blocks of 4 bits hold
# them; activations are rounded to 1/127 of the largest of 32, and errors grow from layer to layer.
TOLERANCES = {"pack-blocks": 0.05, "quantize-activations": 0.05}
# What a pass may change of which the description says nothing.
SAME = 1e-9
# Options that are not numbers or switches, or of which not every number is one.
CHOICES = {
    "call-kernels": {"lanes": [16]},
    "quantize-weights": {"format": ["q4_0", "q4_1"]},
}


@st.composite
def passes(draw: st.DrawFn, name: str) -> Pass:
    """The pass of that name, its options drawn."""
    options = {}
    for field in fields(PASSES[name]):
        choices = CHOICES.get(name, {}).get(field.name, [field.default])
        if field.type is bool:
            choices = [False, True]
        elif field.type is int and len(choices) == 1:
            choices = [field.default, 3]
        options[field.name] = draw(st.sampled_from(choices))
    return PASSES[name](**options)


def places(name: str) -> st.SearchStrategy[int]:
    """After how many steps of the pipeline to run the pass: half of the time where it belongs."""
    return st.sampled_from(own_places(name)) | st.integers(0, len(steps_to_iree()) - 1)


def own_places(name: str) -> list[int]:
    """After how many steps the pipeline runs the pass; before all of them if it does not."""
    return [number for number, step in enumerate(steps_to_iree()) if step.name == name] or [0]


def hold(module: ir.Module, pass_: Pass) -> bool:
    """Runs `pass_` and holds it to all that it promises but values; whether it changed anything.

    It may refuse the module; what it leaves then is of no interest.
    """
    before = str(module)
    try:
        run((pass_,), module)
    except PassError:
        return False
    except Exception as error:
        raise PropertyError(f"{type(error).__name__}: {error}", before, spelt(pass_)) from error
    text = str(module)
    if text == before:
        return False
    if str(ir.Module.parse(text, CONTEXT)) != text:
        raise PropertyError("the result changes when it is read back", before, spelt(pass_))
    if pass_.idempotent:
        again, twice = copy(module), f"{spelt(pass_)},{spelt(pass_)}"
        try:
            run((pass_,), again)
        except Exception as error:
            raise PropertyError(f"a second run fails: {error}", before, twice) from error
        if str(again) != text:
            raise PropertyError("a second run changes more", before, twice)
    return True


def compare(
    program: Program, module: ir.Module, before: str, pipeline: str, tolerance: float
) -> None:
    """PropertyError if `module`, made of `before` by `pipeline`, is another program now."""
    if any(
        op.name == "flow.dispatch" or op.name.startswith("vector.") for op in walk(module.operation)
    ):
        return  # kernels of vector code are IREE's to run
    try:
        problem = "\n".join(program.differences(module, tolerance))
    except Exception as error:
        raise PropertyError(f"{type(error).__name__}: {error}", before, pipeline) from error
    if problem:
        raise PropertyError(problem, before, pipeline)


def steps_of(plan: Model | Function) -> tuple[PlanStep, ...]:
    return plan.steps if isinstance(plan, Function) else (*chain(*plan.kinds), *plan.before)


def says_it_changes_numerics(name: str) -> bool:
    return "numerics" in (PASSES[name].__doc__ or "")


def spelt(pass_: Pass) -> str:
    return SinglePass(("builtin.module",), pass_).text


@pytest.mark.parametrize("name", sorted(PASSES))
@pytest.mark.parametrize(
    ("plans", "examples"), [(models, 12), (functions, 6)], ids=["models", "functions"]
)
def test_a_pass_keeps_values(name, plans, examples, request):
    @bounded(examples, request)
    @given(plans, places(name), passes(name))
    def holds(plan: Model | Function, place: int, pass_: Pass) -> None:
        program = Program.of(plan, CONTEXT)
        module = after(place, program)
        before = str(module)
        tolerance = TOLERANCES.get(name, EXACT if says_it_changes_numerics(name) else SAME)
        # What is rounded may choose another expert.
        chooses = any(isinstance(step, Experts) for step in steps_of(plan))
        if hold(module, pass_) and not (tolerance > EXACT and chooses):
            compare(program, module, before, spelt(pass_), tolerance)

    holds()


def test_every_pass_finds_something_to_do(request):
    """What the programs give no pass a reason to change is not tested."""
    # The first is told what to do; of packed blocks the programs have none, and the last wants
    # layers of which IREE compiles nothing.
    idle = set(PASSES) - {"apply-schedule", "outline-quantized-linears", "persist-layers"}

    @bounded(40, request)
    @given(models | functions)
    def look(plan: Model | Function) -> None:
        program = Program.of(plan, CONTEXT)
        for name in sorted(idle):
            for place in {0, *own_places(name)}:
                module = after(place, program)
                if hold(module, PASSES[name]()):
                    idle.discard(name)

    look()
    assert not idle


@st.composite
def pipelines(draw: st.DrawFn, name: str) -> Pipeline:
    """The pipeline of that name, its options drawn. Weights are exact in all types."""
    kind = PIPELINES[name]
    options = {"storage": draw(st.sampled_from(STORAGES))} if hasattr(kind, "storage") else {}
    return kind(**options)


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize(
    ("plans", "examples"), [(models, 3), (functions, 6)], ids=["models", "functions"]
)
def test_each_prefix_of_a_pipeline_keeps_values(name, plans, examples, request):
    @bounded(examples, request)
    @given(plans, pipelines(name), st.booleans())
    def holds(plan: Model | Function, pipeline: Pipeline, is_in_its_place: bool) -> None:
        program = Program.of(plan, CONTEXT)
        module = after(steps_before(name), program) if is_in_its_place else copy(program.module)
        first, done = str(module), []
        with CONTEXT:
            steps = list(single_passes(pipeline.steps()))
        for single in steps:
            if not applies(single, program):
                continue
            before = str(module)
            done.append(below_module(single))
            try:
                run((as_step(single),), module)
            except PassError:
                assert not is_in_its_place
                return
            except Exception as error:
                raise PropertyError(str(error), first, ",".join(done)) from error
            if str(module) != before:
                compare(program, module, first, ",".join(done), EXACT)

    holds()


def parts_of(file: Path) -> Iterator[ir.Module]:
    """The valid modules between the separators of a file."""
    for text in re.split(r"^// -----.*$", file.read_text(), flags=re.MULTILINE):
        try:
            yield ir.Module.parse(text, CONTEXT)
        except ir.MLIRError:
            continue  # there to be refused


@cache
def odd_modules() -> list[ir.Module]:
    """Modules that nobody would write."""
    modules = list(parts_of(ROOT / "tests" / "programs" / "odd_modules.mlir"))
    assert len(modules) == 13, "all of them are valid"
    return modules


@cache
def odd_modules_after_a_pass() -> list[ir.Module]:
    changed = []
    for pass_ in PASSES.values():
        for module in map(copy, odd_modules()):
            if hold(module, pass_()):
                changed.append(module)
    return changed


@cache
def modules_of_lit_tests() -> list[ir.Module]:
    files = sorted((ROOT / "lit_tests").rglob("*.mlir"))
    return [module for file in files for module in parts_of(file)]


@pytest.mark.parametrize("name", sorted(PASSES))
def test_a_pass_crashes_on_nothing_valid(name):
    for module in (*odd_modules(), *odd_modules_after_a_pass(), *modules_of_lit_tests()):
        hold(copy(module), PASSES[name]())
