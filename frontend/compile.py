"""A model in, a bundle out: the whole of `llmc compile` as one function."""

from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

from transformers import PreTrainedModel

from llmc.frontend.interception import IMPLEMENTATION
from llmc.frontend.loaded_model import LoadedModel
from llmc.frontend.lowering import context_bound, lower_model, stored_dtype
from llmc.frontend.options import CompileOptions, Progress
from llmc.frontend.output_folder import appearing, check_free, writing
from llmc.frontend.toolchain import versions
from llmc.frontend.work import Work, module_text
from llmc.pipelines.iree import compile_module
from llmc.pipelines.parameters import stored_parameters, write_archive
from llmc.pipelines.passes.thread_kv_cache import kv_bytes_per_token
from llmc.pipelines.targets.cpu import CPUTarget
from llmc.runtime import manifest as bundle


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
    work = Work(progress, dump_ir)
    target = CPUTarget.parse(options.target)
    # First, for it finds most of what can be wrong with a model.
    with work.stage("read"):
        weights = model.stored_weights()
    skeleton = make_skeleton(model)
    module = lower_model(model, skeleton, options, work, start_from=start_from)
    with appearing(output) as folder, writing(output):
        with work.stage("code"):
            dispatches = compile_module(module, target, folder / bundle.MODULE)
        with work.stage("archive"):
            values = {**dict(skeleton.named_buffers()), **weights}
            write_archive(stored_parameters(module), values, folder / bundle.PARAMETERS)
            (folder / bundle.TOKENIZER).write_text(model.tokenizer_json, encoding="utf-8")
        with work.stage("manifest"):
            files = (bundle.MODULE, bundle.PARAMETERS, bundle.TOKENIZER)
            facts = {name: bundle.FileFacts.of(folder / name) for name in files}
        kv_bytes = kv_bytes_per_token(module)
        _manifest(model, skeleton, options, kv_bytes, dispatches, target, facts, work).write(folder)


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
    work = Work(progress, dump_ir)
    module = lower_model(
        model, make_skeleton(model), options, work, start_from=start_from, stop_after=stop_after
    )
    return module_text(module)


def make_skeleton(model: LoadedModel) -> PreTrainedModel:
    """The model without weights, whose attention and experts are ours."""
    skeleton = model.skeleton(IMPLEMENTATION)
    skeleton.set_experts_implementation(IMPLEMENTATION)
    return skeleton


def _manifest(
    model: LoadedModel,
    skeleton: PreTrainedModel,
    options: CompileOptions,
    kv_bytes: int,
    dispatches: dict[str, int],
    target: CPUTarget,
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
            dtype=stored_dtype(model, options),
        ),
        context=context_bound(model, options),
        kv_bytes_per_token=kv_bytes,
        dispatches=dispatches,
        tokenizer=model.tokenizer,
        target=target.facts,
        versions=versions(),
        files=files,
        compile=bundle.CompileFacts(
            seconds=sum(stage.seconds for stage in work.stages),
            stages=tuple(work.stages),
            tuned_kernels=work.tuned_kernels,
            options=asdict(options),
        ),
    )
