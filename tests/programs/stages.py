"""Programs in the middle of the pipeline that `llmc compile` runs."""

from collections.abc import Iterator
from functools import cache
from itertools import islice

from torch_mlir import ir

from llmc import dialects
from llmc.pipelines.driver.execution import SinglePass, run, single_passes
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.pipeline import ImportedToIREE, Step, stages
from tests.programs.models import Model
from tests.programs.observation import Program


def new_context() -> ir.Context:
    context = ir.Context()
    context.allow_unregistered_dialects = True  # of what is IREE's
    dialects.load(context)
    return context


CONTEXT = new_context()


@cache
def steps_to_iree(storage: str = "f32") -> tuple[SinglePass, ...]:
    """What `llmc compile --dtype STORAGE` runs after the import, pass by pass."""
    with CONTEXT:
        return tuple(single_passes(ImportedToIREE(storage=storage).steps()))


@cache
def steps_before(name: str, storage: str = "f32") -> int:
    """How many steps of it come before the pipeline called `name`."""
    _, *after_import = stages("cpu", storage)
    count = 0
    for stage in after_import:
        if stage.name == name:
            return count
        with CONTEXT:
            count += len(list(single_passes(stage.steps())))
    return 0


def as_step(single: SinglePass) -> Step:
    return single.pass_ if isinstance(single.pass_, Pass) else below_module(single)


def below_module(single: SinglePass) -> str:
    """The pass as an element of `builtin.module(...)`."""
    return single.pipeline.removeprefix("builtin.module(").removesuffix(")")


def applies(single: SinglePass, program: Program) -> bool:
    """Whether the pass has a place in the program: what is no model has no tokens to remember."""
    return isinstance(program.plan, Model) or single.name != "thread-kv-cache"


def after(count: int, program: Program, storage: str = "f32") -> ir.Module:
    """A copy of the program after the first steps of the pipeline."""
    return next(islice(on_its_way(program, storage), count, None))


def on_its_way(program: Program, storage: str = "f32") -> Iterator[ir.Module]:
    """A copy of the program, which then goes through the pipeline, a step at a time."""
    module = copy(program.module)
    yield module
    for single in steps_to_iree(storage):
        if applies(single, program):
            run((as_step(single),), module, verify_each=False)
        yield module


def copy(module: ir.Module) -> ir.Module:
    return module.operation.clone().opview
