"""A model to the module that IREE compiles, from any stage on and up to any stage."""

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from torch_mlir import ir
from transformers import PreTrainedModel

from llmc.frontend.importer import import_programs
from llmc.frontend.loaded_model import LoadedModel
from llmc.frontend.options import DEFAULT_CONTEXT, CompileOptions
from llmc.frontend.programs import VARIANTS, export_variant
from llmc.frontend.stage_file import check_fits, read_stage
from llmc.frontend.tuned import database_path
from llmc.frontend.work import Work, module_text
from llmc.pipelines.driver.execution import run
from llmc.pipelines.errors import PassError, reason
from llmc.pipelines.passes.schedule_kernels import TUNED
from llmc.pipelines.pipeline import (
    SHARDED_STAGE_NAMES,
    STAGE_NAMES,
    TORCH,
    LinalgStage,
    ShardStage,
    Stage,
    stages,
)
from llmc.pipelines.targets.gpu import GPUTarget
from llmc.pipelines.targets.gpu_storage import check_storage
from llmc.pipelines.targets.parse import parse_target, split_targets
from llmc.pipelines.walks import walk
from llmc.runtime.errors import UserError, one_line


@dataclass(frozen=True)
class Lowering:
    """A module on its way: what `model` is after the stage `done`."""

    model: LoadedModel
    options: CompileOptions
    done: str
    module: ir.Module

    def copy(self) -> "Lowering":
        """The same, with a module of its own."""
        text = module_text(self.module)
        return replace(self, module=ir.Module.parse(text, self.module.context))

    def run_stages(
        self, target: str, work: Work, stop_after: str = STAGE_NAMES[-1], rank: int = 0
    ) -> ir.Module:
        """Runs the stages for `target` up to `stop_after` on the module, which it returns.

        Of a model for several ranks it becomes the program of `rank`.
        """
        done, module, options = self.done, self.module, self.options
        path = database_path()
        tuned = str(path) if path.exists() and not options.no_tuning else ""
        stored = storage(self.model, options)
        shard = None
        if options.grid or options.plan:
            shard = ShardStage(options.grid, options.plan, rank, stored, options.overlap)
        for stage in stages(target, stored, options.kv_dtype, tuned, shard):
            if SHARDED_STAGE_NAMES.index(done) < SHARDED_STAGE_NAMES.index(stage.stage):
                if done == stop_after:
                    break
                with work.stage(stage.stage):
                    _run_stage(stage, module)
                if isinstance(stage, LinalgStage):
                    tuned_kernels = (TUNED in op.attributes for op in walk(module.operation))
                    work.tuned_kernels += sum(tuned_kernels)
                work.dump(stage.stage, module)
                done = stage.stage
        return module


def _run_stage(stage: Stage, module: ir.Module) -> None:
    """UserError where the module is none that a pass can work on, as one that was edited."""
    try:
        run(stage.steps(), module)
    except PassError as error:
        raise UserError(f"the stage {stage.stage} fails: {one_line(error)}") from error
    except ir.MLIRError as error:
        why = one_line(reason(error, "MLIR does not say why"))
        raise UserError(f"the stage {stage.stage} fails: {why}") from error


def start_lowering(
    model: LoadedModel,
    skeleton: PreTrainedModel,
    options: CompileOptions,
    work: Work,
    start_from: Path | None = None,
) -> Lowering:
    """The module of `model` as the import leaves it, or as it is in `start_from`.

    `skeleton` is `model.skeleton` with our attention and experts; the export borrows it.
    `start_from` is a file that `--dump-ir` wrote, or an edited one. UserError where the model is
    not what llmc can compile, a target cannot read its weights as `options` would store them, or
    the file is not such a one, of this model.
    """
    context = context_bound(model, options)
    for name in split_targets(options.target):
        target = parse_target(name)
        if isinstance(target, GPUTarget):
            check_storage(name, target.gpu, storage(model, options), options.kv_dtype)
    if start_from is not None:
        done, module = read_stage(start_from)
        check_fits(module, start_from, skeleton, storage(model, options), options.kv_dtype)
        return Lowering(model, options, done, module)
    module = import_model(model, skeleton, context, work)
    work.dump(TORCH, module)
    return Lowering(model, options, TORCH, module)


def context_bound(model: LoadedModel, options: CompileOptions) -> int:
    """The most tokens of a sequence; UserError for more than the model was made for."""
    context = options.context or min(model.context, DEFAULT_CONTEXT)
    if context > model.context:
        raise UserError(
            f"{model.name} was made for {model.context} positions: no context of {context}"
        )
    return context


_FLOATS = {"float16": "f16", "bfloat16": "bf16", "float32": "f32"}
"""The pipeline's names of the types that weights are stored in."""


def storage(model: LoadedModel, options: CompileOptions) -> str:
    """How the pipeline stores matrices: a float's type, a format of blocks, or as-is."""
    if options.dtype != "as-is" or model.formats:
        return options.dtype
    return _FLOATS.get(model.storage, "f32")


def stored_dtype(model: LoadedModel, options: CompileOptions) -> str:
    """The type, or format of blocks, that most of the compiled weights have."""
    stored = storage(model, options)
    if stored != "as-is":
        return stored
    in_most = Counter(model.formats.values()).most_common(1)[0][0]
    return _FLOATS.get(model.storage, in_most)


def import_model(
    model: LoadedModel, skeleton: PreTrainedModel, context: int, work: Work
) -> ir.Module:
    """The module of `model` for sequences of up to `context` tokens; see `start_lowering`."""
    with work.stage("export"):
        variants = [export_variant(skeleton, variant, context) for variant in VARIANTS]
    with work.stage(TORCH):
        return import_programs(variants, ir.Context(), model.formats)
