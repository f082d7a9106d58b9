"""Properties of passes and pipelines on random programs: values stay, and nothing crashes."""

import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from functools import cache
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from torch_mlir import ir

from llmc import dialects
from llmc.pipelines.driver.execution import SinglePass, run, single_passes
from llmc.pipelines.passes import PASSES
from llmc.pipelines.passes.base import Pass, PassError, find
from llmc.pipelines.pipeline import ImportedToIREE, IREEStage, Step
from llmc.runtime import abi
from tests import compiled
from tests.programs.blocks import Experts
from tests.programs.functions import Function
from tests.programs.models import Model
from tests.programs.observation import EXACT, Program, close
from tests.programs.strategies import functions, models

ROOT = Path(__file__).parent.parent

# How far a pass may go from what it was given. The weights are such that blocks of 4 bits hold
# them; activations are rounded to 1/127 of the largest of 32, and errors grow from layer to layer.
TOLERANCES = {"quantize-activations": 0.05}
# Options that are not numbers or switches, or of which not every number is one.
CHOICES = {
    "call-kernels": {"lanes": [16]},
    "quantize-weights": {"format": ["q4_0", "q4_1"]},
}


def new_context() -> ir.Context:
    context = ir.Context()
    context.allow_unregistered_dialects = True  # of what is IREE's
    dialects.load(context)
    return context


CONTEXT = new_context()


class PropertyError(AssertionError):
    """A property does not hold. The text is the program and the command that shows it."""

    def __init__(self, problem: str, text: str, pipeline: str) -> None:
        file = Path(tempfile.gettempdir(), "llmc-failing-program.mlir")
        file.write_text(text)
        command = f"llmc-opt {file} --pass-pipeline='builtin.module({pipeline})'"
        super().__init__(f"{problem}\n{command}\n\n{text}")


def bounded(examples: int, request: pytest.FixtureRequest) -> Callable:
    """The same examples at every run, and so many of them; ten times as many if thorough."""
    return settings(
        max_examples=examples * (10 if request.config.getoption("--thorough") else 1),
        derandomize=True,
        report_multiple_bugs=False,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )


@cache
def steps_to_iree() -> tuple[SinglePass, ...]:
    """What `llmc compile` runs after the import, pass by pass."""
    with CONTEXT:
        return tuple(single_passes(ImportedToIREE().steps()))


def as_step(single: SinglePass) -> Step:
    if isinstance(single.pass_, Pass):
        return single.pass_
    return single.pipeline.removeprefix("builtin.module(").removesuffix(")")


def applies(single: SinglePass, program: Program) -> bool:
    """Whether the pass has a place in the program: what is no model has no tokens to remember."""
    return isinstance(program.plan, Model) or single.name != "thread-kv-cache"


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


def after(count: int, program: Program) -> ir.Module:
    """A copy of the program after the first steps of the pipeline."""
    module = copy(program.module)
    for single in steps_to_iree()[:count]:
        if applies(single, program):
            run((as_step(single),), module)
    return module


def copy(module: ir.Module) -> ir.Module:
    return module.operation.clone().opview


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
        again = copy(module)
        try:
            run((pass_,), again)
        except Exception as error:
            twice = f"{spelt(pass_)},{spelt(pass_)}"
            raise PropertyError(f"a second run fails: {error}", before, twice) from error
        if str(again) != text:
            raise PropertyError(
                "a second run changes more", before, f"{spelt(pass_)},{spelt(pass_)}"
            )
    return True


def compare(
    program: Program, module: ir.Module, before: str, pipeline: str, tolerance: float
) -> None:
    """PropertyError if `module`, made of `before` by `pipeline`, is another program now."""
    if find(module.operation, "flow.dispatch"):
        return  # kernels of vector code are IREE's to run
    try:
        problem = "\n".join(program.differences(module, tolerance))
    except Exception as error:
        raise PropertyError(f"{type(error).__name__}: {error}", before, pipeline) from error
    if problem:
        raise PropertyError(problem, before, pipeline)


def has_experts(plan: Model | Function) -> bool:
    steps = plan.steps if isinstance(plan, Function) else (*chain(*plan.kinds), *plan.before)
    return any(isinstance(step, Experts) for step in steps)


def spelt(pass_: Pass) -> str:
    return SinglePass(("builtin.module",), pass_).text


@pytest.mark.parametrize("name", sorted(PASSES))
@pytest.mark.parametrize(
    ("plans", "examples"), [(models, 14), (functions, 6)], ids=["models", "functions"]
)
def test_a_pass_keeps_values(name, plans, examples, request):
    @bounded(examples, request)
    @given(plans, places(name), passes(name))
    def holds(plan: Model | Function, place: int, pass_: Pass) -> None:
        program = Program.of(plan, CONTEXT)
        module = after(place, program)
        before = str(module)
        # What is rounded may choose another expert.
        if hold(module, pass_) and not (name in TOLERANCES and has_experts(plan)):
            compare(program, module, before, spelt(pass_), TOLERANCES.get(name, EXACT))

    holds()


def test_every_pass_finds_something_to_do(request):
    """What the programs give no pass a reason to change is not tested."""
    idle = set(PASSES) - {"apply-schedule"}  # which is told what to do

    @bounded(40, request)
    @given(models | functions)
    def look(plan: Model | Function) -> None:
        program = Program.of(plan, CONTEXT)
        for name in sorted(idle):
            for place in own_places(name):
                module = after(place, program)
                if hold(module, PASSES[name]()):
                    idle.discard(name)

    look()
    assert not idle


@pytest.mark.parametrize(
    ("plans", "examples"), [(models, 4), (functions, 12)], ids=["models", "functions"]
)
def test_each_prefix_of_the_pipeline_keeps_values(plans, examples, request):
    @bounded(examples, request)
    @given(plans)
    def holds(plan: Model | Function) -> None:
        program = Program.of(plan, CONTEXT)
        module, done = copy(program.module), []
        for single in steps_to_iree():
            if applies(single, program):
                before = str(module)
                run((as_step(single),), module)
                done.append(single.pipeline.removeprefix("builtin.module(").removesuffix(")"))
                if str(module) != before:
                    compare(program, module, str(program.module), ",".join(done), EXACT)

    holds()


def parts_of(file: Path) -> Iterator[ir.Module]:
    """The valid modules between the separators of a file."""
    for text in re.split(r"^// -----.*$", file.read_text(), flags=re.MULTILINE):
        try:
            yield ir.Module.parse(text, CONTEXT)
        except ir.MLIRError:
            continue  # there to be refused


@cache
def strange_modules() -> list[ir.Module]:
    """The inputs of all lit tests, and modules that nobody would write."""
    odd = list(parts_of(ROOT / "tests" / "programs" / "odd_modules.mlir"))
    assert len(odd) == 13
    return odd + [
        m for file in sorted((ROOT / "lit_tests").rglob("*.mlir")) for m in parts_of(file)
    ]


@pytest.mark.parametrize("name", sorted(PASSES))
def test_a_pass_crashes_on_nothing_valid(name):
    """Alone, and after each other pass."""
    for module in strange_modules():
        hold(copy(module), PASSES[name]())
    for first in PASSES.values():
        for module in strange_modules()[:13]:
            changed = copy(module)
            try:
                run((first(),), changed)
            except PassError:
                continue
            if str(changed) != str(module):
                hold(changed, PASSES[name]())


def test_iree_computes_what_the_interpreter_does(request, tmp_path):
    """All of the pipeline, and the kernels, which the interpreter cannot run."""

    @bounded(2, request)
    @given(models, st.sampled_from(["f32", "f16"]))
    def holds(model: Model, storage: str) -> None:
        plan = replace(model, variants=(abi.PREFILL, abi.DECODE, abi.DECODE_BATCH))
        program = Program.of(plan, CONTEXT)
        weights = {name: torch.from_numpy(value).float() for name, value in program.weights.items()}
        steps = ImportedToIREE(storage=storage).steps()[: -len(IREEStage().steps())]
        function = compiled.load(str(program.module), steps, weights, tmp_path)

        def call(name: str, *arguments: np.ndarray) -> list[np.ndarray]:
            scalars = [a if isinstance(a, np.ndarray) else int(a) for a in arguments]
            result = function(name)(*scalars)
            return [] if result is None else [result.to_host()]

        for what, actual, expected in program.runs(call, has_state=True):
            assert close(actual, expected, 1e-4), f"{what} of {plan}"

    holds()
