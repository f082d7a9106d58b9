"""Properties of passes and pipelines on random programs: values stay, and nothing crashes."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch_mlir import ir

from llmc.dialects.blocks import FORMATS, Q8_0
from llmc.pipelines.driver.execution import SinglePass, run, single_passes
from llmc.pipelines.errors import PassError
from llmc.pipelines.option_text import option_fields
from llmc.pipelines.passes import (
    PASSES,
    BindParameters,
    NarrowActivations,
    PackBlocks,
    QuantizeActivations,
    QuantizeWeights,
    ThreadKVCache,
)
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.passes.bind_parameters import STORAGES
from llmc.pipelines.passes.quantize_weights import AS_IS
from llmc.pipelines.passes.thread_kv_cache import ELEMENTS
from llmc.pipelines.pipeline import PIPELINES, Pipeline
from llmc.pipelines.walks import walk
from llmc.runtime.errors import UserError
from tests.programs.blocks import Experts, Norm
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
    on_its_way,
    steps_before,
    steps_to_iree,
)
from tests.programs.step import Step as PlanStep
from tests.programs.strategies import functions, models

ROOT = Path(__file__).parent.parent

# What a pass may change of which the description says nothing.
SAME = 1e-9
# Of what is rounded, mostly to 1/127 of the largest of 32: errors grow from layer to layer, but
# stay far from those of a wrong weight.
ROUNDED = 0.15
# Options that are not numbers or switches, or of which not every number is one.
CHOICES = {
    "call-kernels": {"lanes": [16]},
    "quantize-weights": {"format": [*FORMATS, AS_IS]},
    "thread-kv-cache": {"element": list(ELEMENTS)},
}
# What only GPUs run, and before which step of a CPU's pipeline it belongs.
ELSEWHERE = {"tile-prefill": "fold-transposes"}


@st.composite
def passes(draw: st.DrawFn, name: str) -> Pass:
    """The pass of that name, its options drawn."""
    options = {}
    for field in option_fields(PASSES[name]):
        choices = CHOICES.get(name, {}).get(field.name, [field.default])
        if field.type is bool:
            choices = [False, True]
        elif field.type is int and len(choices) == 1:
            choices = [field.default, 3]
        options[field.name] = draw(st.sampled_from(choices))
    return PASSES[name](**options)


@dataclass(frozen=True)
class Place:
    """After the first `count` steps of what `llmc compile --dtype STORAGE` runs."""

    storage: str = "f32"
    count: int = 0

    @property
    def steps(self) -> tuple[SinglePass, ...]:
        return steps_to_iree(self.storage)[: self.count]


@st.composite
def places(draw: st.DrawFn, name: str) -> Place:
    """Where to run the pass: half of the time where it belongs."""
    storage = draw(st.sampled_from(["f32", "bf16", *FORMATS]))
    own = [place.count for place in own_places(name, storage)] or [0]
    last = len(steps_to_iree(storage)) - 1
    return Place(storage, draw(st.sampled_from(own) | st.integers(0, last)))


def own_places(name: str, storage: str) -> list[Place]:
    """Where the pipeline runs the pass."""
    steps, before = enumerate(steps_to_iree(storage)), ELSEWHERE.get(name, name)
    return [Place(storage, number) for number, step in steps if step.name == before]


def hold(module: ir.Module, pass_: Pass) -> bool:
    """Runs `pass_` and holds it to all that it promises but values; whether it changed anything.

    It may refuse the module; what it leaves then is of no interest.
    """
    before = str(module)
    try:
        run((pass_,), module)
    except (PassError, UserError):
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
    program: Program,
    module: ir.Module,
    before: str,
    pipeline: str,
    tolerance: float,
    earlier: ir.Module | None = None,
) -> None:
    """PropertyError if `module`, made of `before` by `pipeline`, is another program now.

    Where errors have grown beyond `tolerance` in `earlier`, which is `before`, it is held to that.
    """
    if any(
        op.name == "flow.dispatch" or op.name.startswith("vector.") for op in walk(module.operation)
    ):
        return  # kernels of vector code are IREE's to run
    try:
        problems = program.differences(module, tolerance)
        if problems and earlier and program.differences(earlier, tolerance):
            problems = program.differences(module, tolerance, earlier)
    except Exception as error:
        raise PropertyError(f"{type(error).__name__}: {error}", before, pipeline) from error
    if problems:
        raise PropertyError("\n".join(problems), before, pipeline)


def steps_of(plan: Model | Function) -> tuple[PlanStep, ...]:
    return plan.steps if isinstance(plan, Function) else (*chain(*plan.kinds), *plan.before)


def fitting(plan: Model | Function, storage: str) -> Model | Function:
    """The plan with rows of a length that can be stored so."""
    return replace(plan, width=FORMATS[storage].values) if storage in FORMATS else plan


def tolerance_of(steps: Iterable[SinglePass], least: float) -> float:
    """How far these steps may take a program from what it computes: `least` if they round nothing.

    Blocks of 4 bits and bf16 hold the weights exactly.
    """
    passes = [step.pass_ for step in steps]
    has_bf16 = any(isinstance(each, BindParameters) and each.storage == "bf16" for each in passes)
    narrows = any(isinstance(each, NarrowActivations) for each in passes)
    return ROUNDED if (has_bf16 and narrows) or any(map(_rounds, passes)) else least


def _rounds(pass_: Pass | str) -> bool:
    if isinstance(pass_, ThreadKVCache):
        return pass_.element != "f32"
    return isinstance(pass_, PackBlocks | QuantizeActivations) or pass_ == QuantizeWeights(
        Q8_0.name
    )


def is_comparable(plan: Model | Function, tolerance: float) -> bool:
    """Whether the program computes nearly the same of rounded numbers.

    They choose experts, and a norm makes their errors large where no residual is added.
    """
    return tolerance <= EXACT or not any(
        isinstance(step, Experts | Norm) or not getattr(step, "residual", True)
        for step in steps_of(plan)
    )


def says_it_changes_numerics(name: str) -> bool:
    return "numerics" in (PASSES[name].__doc__ or "")


def spelt(pass_: Pass) -> str:
    return SinglePass(("builtin.module",), pass_).text


@pytest.mark.parametrize("name", sorted(PASSES))
@pytest.mark.parametrize(
    ("plans", "examples"), [(models, 3), (functions, 3)], ids=["models", "functions"]
)
def test_a_pass_keeps_values(name, plans, examples, request):
    @bounded(examples, request)
    @given(plans, places(name), passes(name))
    def holds(plan: Model | Function, place: Place, pass_: Pass) -> None:
        program = Program.of(fitting(plan, place.storage), CONTEXT)
        module = after(place.count, program, place.storage)
        before = str(module)
        least = EXACT if says_it_changes_numerics(name) else SAME
        is_rounded = tolerance_of(place.steps, least) > least
        earlier = copy(module) if is_rounded else None
        tolerance = tolerance_of([*place.steps, SinglePass((), pass_)], least)
        if hold(module, pass_) and is_comparable(plan, tolerance):
            compare(program, module, before, spelt(pass_), tolerance, earlier)

    holds()


@pytest.mark.thorough
def test_every_pass_finds_something_to_do(request):
    """What the programs give no pass a reason to change is not tested."""
    # The first is told what to do, the others want attention of one token to a cache of floats,
    # a kernel with its schedule, layers that are not packed, layers of which IREE compiles nothing,
    # weights of 16 bits in many rows, a vocabulary whose size is no prime number, blocks in rows,
    # outputs used in parts, a grid of several ranks, or a large vocabulary; one changes nothing.
    elsewhere = {
        "annotate-caches",
        "annotate-shardings",
        "apply-schedule",
        "call-gpu-kernels",
        "fill-panels",
        "fuse-argmax",
        "fuse-screened-argmax",
        "lower-collectives",
        "lower-collectives-to-flow",
        "overlap-collectives",
        "pair-halves",
        "partition-shards",
        "partition-stages",
        "persist-layers",
        "propagate-shardings",
        "refuse-unsupported",
        "round-activations",
        "schedule-collectives",
        "screen-argmax",
        "simplify-collectives",
        "split-argmax",
        "split-blocks",
        "split-linears",
    }
    idle = set(PASSES) - elsewhere

    @bounded(40, request)
    @given(models | functions)
    def look(plan: Model | Function) -> None:
        for storage in ("f32", "bf16", Q8_0.name):
            places = {
                name: {0, *(place.count for place in own_places(name, storage))} for name in idle
            }
            last = max(chain(*places.values()), default=-1)
            program = Program.of(fitting(plan, storage), CONTEXT)
            for count, module in zip(range(last + 1), on_its_way(program, storage), strict=False):
                for name in sorted(idle):
                    if count in places[name] and hold(copy(module), PASSES[name]()):
                        idle.discard(name)

    look()
    assert not idle


@st.composite
def pipelines(draw: st.DrawFn, name: str) -> tuple[Pipeline, str]:
    """The pipeline of that name, its options drawn, and how weights are stored."""
    kind, storage = PIPELINES[name], draw(st.sampled_from([*STORAGES, *FORMATS, AS_IS]))
    return kind(**{"storage": storage} if hasattr(kind, "storage") else {}), storage


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize(
    ("plans", "examples"), [(models, 2), (functions, 4)], ids=["models", "functions"]
)
def test_each_prefix_of_a_pipeline_keeps_values(name, plans, examples, request):
    @bounded(examples, request)
    @given(plans, pipelines(name), st.booleans())
    def holds(plan: Model | Function, chosen: tuple[Pipeline, str], is_in_its_place: bool) -> None:
        pipeline, storage = chosen
        program = Program.of(fitting(plan, storage), CONTEXT)
        place = Place(storage, steps_before(name, storage) if is_in_its_place else 0)
        module = after(place.count, program, storage)
        first, done, run_so_far = str(module), [], list(place.steps)
        with CONTEXT:
            steps = list(single_passes(pipeline.steps()))
        for single in steps:
            if not applies(single, program):
                continue
            before = str(module)
            done.append(below_module(single))
            run_so_far.append(single)
            try:
                run((as_step(single),), module)
            except PassError:
                assert not is_in_its_place
                return
            except Exception as error:
                raise PropertyError(str(error), first, ",".join(done)) from error
            tolerance = tolerance_of(run_so_far, EXACT)
            if str(module) != before and is_comparable(plan, tolerance):
                compare(program, module, first, ",".join(done), tolerance)

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
def test_a_pass_crashes_on_nothing_valid(name, request):
    """Of what the lit tests have, each pass is given a third, and all if thorough."""
    share = 1 if request.config.getoption("--thorough") else 3
    of_lit_tests = modules_of_lit_tests()[sorted(PASSES).index(name) % share :: share]
    for module in (*odd_modules(), *odd_modules_after_a_pass(), *of_lit_tests):
        hold(copy(module), PASSES[name]())
