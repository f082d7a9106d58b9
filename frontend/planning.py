"""A model to a plan for several devices, without compiling it."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from torch_mlir import ir

from llmc.frontend.compile import make_skeleton
from llmc.frontend.loaded_model import LoadedModel
from llmc.frontend.lowering import context_bound, start_lowering, storage, stored_dtype
from llmc.frontend.options import CompileOptions, Progress
from llmc.frontend.work import Work
from llmc.pipelines.driver.execution import run
from llmc.pipelines.passes.bind_parameters import STORAGES
from llmc.pipelines.pipeline import ImportStage, ShardStage, StateStage
from llmc.pipelines.sharding.plan import read_plan
from llmc.pipelines.sharding.search.constraints import Constraints
from llmc.pipelines.sharding.search.cost import Step, weight_bytes
from llmc.pipelines.sharding.search.device import Device
from llmc.pipelines.sharding.search.search import Found, Search, grid_of_sizes
from llmc.runtime import abi
from llmc.runtime.errors import UserError
from llmc.runtime.ranks.grid import Grid

_CACHED = 512


@dataclass(frozen=True)
class Workload:
    """What is to be fast: a step of `batch` sequences that hold `cached` tokens each.

    With `prompt` it is the prefill of so many tokens, of one sequence.
    """

    cached: int = _CACHED
    batch: int = 1
    prompt: int | None = None


@dataclass(frozen=True)
class Planned:
    """The best plan, and the others that it is compared with, by what they are called."""

    best: Found
    others: dict[str, Found | str]


def readable_module(
    model: LoadedModel, options: CompileOptions, progress: Progress = nullcontext
) -> ir.Module:
    """The module of `model` as `annotate-shardings` finds it. The weights are not read."""
    work = Work(progress, None)
    lowering = start_lowering(model, make_skeleton(model), options, work)
    with work.stage("import"):
        run(ImportStage().steps(), lowering.module)
        run(ShardStage().before_annotations(), lowering.module)
    return lowering.module


def bytes_of_weights(model: LoadedModel, options: CompileOptions) -> int:
    """What the weights of `model` take as they are stored, and a step reads."""
    count = sum(weight.numel() for weight in make_skeleton(model).parameters())
    return int(count * weight_bytes(stored_dtype(model, options)))


def usual_cached(model: LoadedModel, options: CompileOptions) -> int:
    """How many tokens are cached in the step that is to be fast, where nobody says."""
    return min(_CACHED, context_bound(model, options) // 2)


def make_search(
    model: LoadedModel,
    module: ir.Module,
    options: CompileOptions,
    device: Device,
    workload: Workload,
    constraints: Constraints | None = None,
) -> Search:
    """The search for plans of `model`, whose module is `module`. UserError for a wrong plan."""
    stored = storage(model, options)
    element = StateStage(storage=stored, kv_dtype=options.kv_dtype).element
    function, open_size = abi.DECODE, 1
    if workload.prompt is not None:
        function, open_size = abi.PREFILL, workload.prompt
    elif workload.batch > 1:
        function, open_size = abi.DECODE_BATCH, workload.batch
    context = context_bound(model, options)
    if workload.cached + (workload.prompt or 1) > context:
        needed = workload.cached + (workload.prompt or 1)
        asked = "--tokens-cached and --prompt need" if workload.prompt else "--tokens-cached needs"
        raise UserError(f"{asked} {needed} tokens, but the context is of {context}")
    step = Step(
        function,
        open_size,
        workload.cached,
        context,
        stored_dtype(model, options),
        weight_bytes(element),
    )
    given = read_plan(Path(options.plan)) if options.plan else None
    exact = stored not in STORAGES
    return Search(module, device, step, exact, constraints or Constraints(), given)


def parse_ranks(text: str) -> int | Grid:
    """A number of ranks, or their grid, as `--grid` says it. UserError where it says neither."""
    if not text.isdecimal():
        return ordered(Grid.parse(text))
    if int(text) < 1:
        raise UserError("--grid must be of at least 1 rank")
    return int(text)


def find_plan(search: Search, ranks: int | Grid) -> Planned:
    """The best plan for so many ranks, or for a grid of them. UserError where there is none."""
    if isinstance(ranks, Grid):
        return Planned(search.best([ranks]), {f"usual {ranks}": _usual(search, ranks)})
    best = search.best(list(search.grids(ranks)))
    pure = [grid_of_sizes(**{name: ranks}) for name in ("tp", "pp", "dp")]
    others = {f"best {grid}": _solved(search, grid) for grid in pure if grid in search.grids(ranks)}
    grids = dict.fromkeys([best.plan.grid, pure[0]])
    return Planned(best, {**others, **{f"usual {grid}": _usual(search, grid) for grid in grids}})


def ordered(grid: Grid) -> Grid:
    """`grid` with its axes from far to near. UserError for an axis of no meaning."""
    sizes = {axis.name: axis.size for axis in grid.axes}
    made = grid_of_sizes(**sizes)
    if made.size != grid.size:
        raise UserError(f"a plan is along the axes pp, dp, ep and tp, not {grid}: change --grid")
    return made


def _solved(search: Search, grid: Grid, *, usual: bool = False) -> Found | str:
    """The plan, or what speaks against it."""
    found = search.solve(grid, usual=usual)
    if isinstance(found, Found):
        return found
    return f"lacks {found.missing / 1e6:,.1f} MB of memory on each device"


def _usual(search: Search, grid: Grid) -> Found | str:
    try:
        return _solved(search, grid, usual=True)
    except ValueError as error:
        return str(error)


def same_of(texts: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """The groups of patterns in `A,B` and so on."""
    return tuple(tuple(text.split(",")) for text in texts)
