"""Random programs, split at random among random ranks, compute what they do on one device."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from torch_mlir import ir

from llmc.pipelines.driver.execution import run
from llmc.pipelines.passes import (
    AnnotateCaches,
    AnnotateShardings,
    NumberLayers,
    PartitionShards,
    PropagateShardings,
    ThreadKVCache,
)
from llmc.pipelines.pipeline import ShardStage, Step
from llmc.runtime import abi
from llmc.runtime.errors import UserError
from llmc.runtime.ranks.grid import Grid
from tests.interpreter.ranks import Ranks
from tests.programs.functions import Function
from tests.programs.models import Model
from tests.programs.observation import Program, close
from tests.programs.properties import PropertyError, bounded
from tests.programs.shardings import annotate, grids
from tests.programs.stages import CONTEXT, copy
from tests.programs.strategies import functions, models

# The interpreter computes in float64, whose sums are made in another order.
SAME = 1e-9


def remember(rank: int) -> tuple[Step, ...]:
    """What gives attention its KV cache, of which each rank has its columns."""
    annotate_and_split = (AnnotateCaches(), PropagateShardings(), PartitionShards(rank=rank))
    return NumberLayers(), ThreadKVCache(), *annotate_and_split


def check(program: Program, annotated: ir.Module, grid: Grid, remembers: bool) -> None:
    """PropertyError where the ranks of an annotated program do not compute what it does."""
    before, modules = str(annotated), []
    try:
        for rank in range(grid.size):
            stage = ShardStage(rank=rank, grid=str(grid))
            modules.append(copy(annotated))
            run(stage.steps()[len(stage.before_annotations()) :], modules[-1])
            run(remember(rank) if remembers else (), modules[-1])
        ranks = Ranks(modules, program.weights, grid)
        problems = [
            f"{what} gives {actual.tolist()}, not {expected.tolist()}"
            for what, actual, expected in program.runs(ranks.call, [abi.RESET] if remembers else [])
            if not close(actual, expected, SAME)
        ]
    except Exception as error:
        raise PropertyError(f"{type(error).__name__}: {error}", before, "llmc-shard") from error
    if problems:
        raise PropertyError("\n".join(problems), before, "llmc-shard")


@pytest.mark.parametrize(
    ("plans", "examples"), [(models, 10), (functions, 80)], ids=["models", "functions"]
)
def test_anything_may_be_split(plans, examples, request):
    @bounded(examples, request)
    @given(plans, grids, st.booleans(), st.data())
    def holds(plan: Model | Function, grid: Grid, remembers: bool, data: st.DataObject) -> None:
        program = Program.of(plan, CONTEXT)
        remembers = remembers and isinstance(plan, Model)
        annotated = copy(program.module)
        run(ShardStage().before_annotations(), annotated)
        with CONTEXT, ir.Location.unknown():
            annotate(data, annotated, grid, activations=not remembers)
        check(program, annotated, grid, remembers)

    holds()


def test_the_usual_way(request):
    @bounded(10, request)
    @given(models, grids, st.booleans(), st.booleans())
    def holds(plan: Model, grid: Grid, exact: bool, remembers: bool) -> None:
        program = Program.of(plan, CONTEXT)
        annotated = copy(program.module)
        annotations = AnnotateShardings(grid=str(grid), exact=exact)
        try:
            run((*ShardStage().before_annotations(), annotations), annotated)
        except UserError:  # there are too many ranks
            assume(False)
        check(program, annotated, grid, remembers)

    holds()
