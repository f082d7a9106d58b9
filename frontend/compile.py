"""A model in, a bundle out: the whole of `llmc compile` as one function."""

import re
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

from transformers import PreTrainedModel

from llmc.frontend.archives import Archives
from llmc.frontend.codes import Codes
from llmc.frontend.interception import IMPLEMENTATION
from llmc.frontend.loaded_model import LoadedModel
from llmc.frontend.lowering import Lowering, context_bound, start_lowering
from llmc.frontend.options import CompileOptions, Progress
from llmc.frontend.output_folder import appearing, check_free, writing
from llmc.frontend.toolchain import versions
from llmc.frontend.work import Work, module_text
from llmc.pipelines.parameters import stored_parameters
from llmc.pipelines.passes.thread_kv_cache import kv_bytes_per_token, kv_columns
from llmc.pipelines.pipeline import SHARDED_STAGE_NAMES, STAGE_NAMES
from llmc.pipelines.sharding.plan import read_plan
from llmc.pipelines.stored_types import bytes_by_type
from llmc.pipelines.targets.gpu import GPUTarget
from llmc.pipelines.targets.parse import parse_target, split_targets
from llmc.runtime import manifest as bundle
from llmc.runtime.errors import UserError
from llmc.runtime.ranks.grid import Grid


def compile_model(
    model: LoadedModel,
    options: CompileOptions,
    output: Path,
    *,
    progress: Progress = nullcontext,
    dump_ir: Path | None = None,
    start_from: Path | None = None,
) -> None:
    """Compiles `model` into the bundle folder `output`, which appears whole or not at all.

    `progress(stage)` is entered around each stage. `dump_ir` is a folder for the module after each,
    `start_from` a file of such a folder to go on from. Raises UserError for what the user can mend,
    IREEError where IREE fails.
    """
    check_free(output)
    targets, grid = _placed(options, start_from)
    work = Work(progress, dump_ir, is_sharded=bool(grid.axes))
    # First, for it finds most of what can be wrong with a model.
    with work.stage("read"):
        weights = model.stored_weights()
    skeleton = make_skeleton(model)
    started = start_lowering(model, skeleton, options, work, start_from)
    with appearing(output) as folder, writing(output):
        archives = Archives(folder, {**dict(skeleton.named_buffers()), **weights})
        made = Codes(folder), archives
        codes = tuple(
            _compile_for(name, rank, started, made, work, alone=len(targets) == 1)
            for name in targets
            for rank in range(grid.size)
        )
        (folder / bundle.TOKENIZER).write_text(model.tokenizer_json, encoding="utf-8")
        with work.stage("manifest"):
            files = {file for code in codes for file in (code.module, code.parameters)}
            facts = {
                name: bundle.FileFacts.of(folder / name)
                for name in (*sorted(files), bundle.TOKENIZER)
            }
        _manifest(model, skeleton, options, grid, codes, facts, work).write(folder)


def _compile_for(
    name: str,
    rank: int,
    started: Lowering,
    made: tuple[Codes, Archives],
    work: Work,
    *,
    alone: bool,
) -> bundle.ModuleFacts:
    """The code of `rank` for the target called `name`, and the archive of its weights."""
    target, (codes, archives) = parse_target(name), made
    of_target = "" if alone else re.sub(r"[^A-Za-z0-9._]+", "-", name)
    of_rank = f"rank{rank}" if work.is_sharded else ""
    slug = ".".join(filter(None, (of_target, of_rank)))
    work.of_target = slug
    module = started.copy().run_stages(name, work, rank=rank)
    stored = stored_parameters(module)
    with archives.writing(stored, slug) as archive:  # while IREE is at work
        with work.stage("code"):
            code = codes.compile(module, target, slug)
        with work.stage("archive"):
            parameters = archive.result()
    return bundle.ModuleFacts(
        target=target.facts,
        rank=rank,
        module=code.file,
        parameters=parameters,
        weight_bytes=bytes_by_type(stored, started.model.formats),
        integers=target.integers,
        kv_bytes_per_token=kv_bytes_per_token(module),
        kv_columns=kv_columns(module),
        dispatches=code.dispatches,
    )


def lower_to(
    model: LoadedModel,
    options: CompileOptions,
    stop_after: str,
    *,
    progress: Progress = nullcontext,
    dump_ir: Path | None = None,
    start_from: Path | None = None,
) -> str:
    """The text of the module of `model` after the stage `stop_after`; see `compile_model`."""
    (name, *others), grid = _placed(options, start_from)
    work = Work(progress, dump_ir, is_sharded=bool(grid.axes))
    if others:
        raise UserError("--stop-after writes the IR for one target: give one with --target")
    names = SHARDED_STAGE_NAMES if work.is_sharded else STAGE_NAMES
    if stop_after not in names:
        if stop_after in SHARDED_STAGE_NAMES:
            raise UserError(f"the stage {stop_after} is of a model that is split: give --grid")
        listed = ", ".join(names)
        raise UserError(f"there is no stage {stop_after!r}: the stages are {listed}")
    started = start_lowering(model, make_skeleton(model), options, work, start_from)
    if names.index(started.done) > names.index(stop_after):
        raise UserError(
            f"{start_from} is after stage {started.done}: cannot stop after {stop_after}"
        )
    return module_text(started.run_stages(name, work, stop_after))


def make_skeleton(model: LoadedModel) -> PreTrainedModel:
    """The model without weights, whose attention and experts are ours."""
    skeleton = model.skeleton(IMPLEMENTATION)
    skeleton.set_experts_implementation(IMPLEMENTATION)
    return skeleton


def _placed(options: CompileOptions, start_from: Path | None) -> tuple[tuple[str, ...], Grid]:
    """The targets and their grid; UserError where these, or `start_from`, do not go together."""
    targets, grid = split_targets(options.target), grid_of_options(options)
    if grid.axes and grid.size == 1:
        raise UserError(f"the grid {grid} is of one rank, which has nothing to split: leave it out")
    for name in targets:
        _check_grid(name, grid, overlap=options.overlap)
    if start_from is not None and len(targets) > 1:
        raise UserError("--start-from goes on for one target: give one with --target")
    if start_from is not None and grid.axes:
        raise UserError("--start-from goes on for one device: leave out --grid and --plan")
    return targets, grid


def _check_grid(target: str, grid: Grid, *, overlap: bool) -> None:
    """UserError where devices of `target` cannot run the model as `grid` and `overlap` want it."""
    kind = parse_target(target)
    if not isinstance(kind, GPUTarget) or grid.size == 1:
        return
    if kind.kind != "cuda":
        raise UserError(f"{target} has no collectives: --grid is for cpu and cuda")
    if any(axis.name == "pp" for axis in grid.axes):
        raise UserError(f"{target} hands nothing on from stage to stage: pp is for cpu")
    if overlap:
        raise UserError(f"{target} is given tiles of a prompt, not halves: --overlap is for cpu")
    if any(axis.name == "sp" for axis in grid.axes):
        raise UserError(f"{target} has no kernel for a part of the KV cache: sp is for cpu")


def grid_of_options(options: CompileOptions) -> Grid:
    """The grid to compile for, of one rank without any axes. UserError where it is none."""
    if options.plan:
        grid = read_plan(Path(options.plan)).grid
        if options.grid and Grid.parse(options.grid) != grid:
            raise UserError(f"the plan {options.plan} is for the grid {grid}, not {options.grid}")
        return grid
    return Grid.parse(options.grid) if options.grid else Grid(())


def _manifest(
    model: LoadedModel,
    skeleton: PreTrainedModel,
    options: CompileOptions,
    grid: Grid,
    modules: tuple[bundle.ModuleFacts, ...],
    files: dict[str, bundle.FileFacts],
    work: Work,
) -> bundle.Manifest:
    config = model.config
    return bundle.Manifest(
        schema=bundle.SCHEMA,
        name=model.name,
        model=bundle.ModelFacts(
            family=config.model_type,
            layers=config.num_hidden_layers,
            hidden_size=config.hidden_size,
            vocab_size=config.vocab_size,
            parameters=sum(parameter.numel() for parameter in skeleton.parameters()),
            dtype=modules[0].types_by_bytes[0][0],
        ),
        context=context_bound(model, options),
        grid=grid.axes,
        modules=modules,
        tokenizer=model.tokenizer,
        versions=versions(),
        files=files,
        compile=bundle.CompileFacts(
            seconds=sum(stage.seconds for stage in work.stages),
            stages=tuple(work.stages),
            tuned_kernels=work.tuned_kernels,
            options=asdict(options),
        ),
    )
