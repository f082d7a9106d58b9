"""A model in, a bundle out: the whole of `llmc compile` as one function."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path

from torch_mlir import ir
from transformers import PreTrainedModel

from llmc.frontend.importer import import_programs
from llmc.frontend.interception import IMPLEMENTATION
from llmc.frontend.loaded_model import LoadedModel
from llmc.frontend.options import DEFAULT_CONTEXT, CompileOptions, Progress
from llmc.frontend.output_folder import appearing, check_free, writing
from llmc.frontend.programs import VARIANTS, export_variant
from llmc.frontend.toolchain import versions
from llmc.pipelines import pipeline
from llmc.pipelines.iree import compile_module
from llmc.pipelines.parameters import kv_bytes_per_token, stored_parameters, write_archive
from llmc.pipelines.targets.cpu import CPUTarget
from llmc.runtime import manifest as bundle
from llmc.runtime.errors import UserError


def compile_model(
    model: LoadedModel,
    options: CompileOptions,
    output: Path,
    *,
    progress: Progress = nullcontext,
    dump_ir: Path | None = None,
) -> None:
    """Compiles `model` into the bundle folder `output`, which appears whole or not at all.

    `progress(stage)` is entered around each stage. `dump_ir` is a folder for the module after each.
    Raises UserError for what the user can mend, IREEError where IREE fails.
    """
    check_free(output)
    work = _Work(progress, dump_ir)
    context = _context_bound(model, options)
    target = CPUTarget.parse(options.target)
    # First, for it finds most of what can be wrong with a model.
    with work.stage("read"):
        weights = model.weights()
    with work.stage("export"):
        skeleton = model.skeleton(IMPLEMENTATION)
        skeleton.set_experts_implementation(IMPLEMENTATION)
        variants = [export_variant(skeleton, variant, context) for variant in VARIANTS]
    with work.stage("import"):
        module = import_programs(variants, ir.Context())
    work.dump("import", module)
    for stage in pipeline.stages(target, _storage(model, options)):
        with work.stage(stage.name):
            pipeline.run(stage, module)
        work.dump(stage.name, module)
    stored, kv_bytes = stored_parameters(module), kv_bytes_per_token(module)
    last = pipeline.hand_over(target)
    pipeline.run(last, module)
    work.dump(last.name, module)
    with appearing(output) as folder, writing(output):
        with work.stage("iree"):
            compile_module(module, target, folder / bundle.MODULE)
        with work.stage("archive"):
            values = {**dict(skeleton.named_buffers()), **weights}
            write_archive(stored, values, folder / bundle.PARAMETERS)
            (folder / bundle.TOKENIZER).write_text(model.tokenizer_json, encoding="utf-8")
        with work.stage("manifest"):
            files = (bundle.MODULE, bundle.PARAMETERS, bundle.TOKENIZER)
            facts = {name: bundle.FileFacts.of(folder / name) for name in files}
        _manifest(model, skeleton, options, context, kv_bytes, target, facts, work).write(folder)


@dataclass
class _Work:
    """Times the stages, tells the user about them, and writes the IR after them."""

    progress: Progress
    dump_folder: Path | None
    stages: list[bundle.Stage] = field(default_factory=list)
    dumped: int = 0

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        begin = time.perf_counter()
        with self.progress(name):
            yield
        self.stages.append(bundle.Stage(name, time.perf_counter() - begin))

    def dump(self, name: str, module: ir.Module) -> None:
        if self.dump_folder is not None:
            path = self.dump_folder / f"{self.dumped:02}-{name}.mlir"
            with writing(path):
                self.dump_folder.mkdir(parents=True, exist_ok=True)
                path.write_text(module.operation.get_asm(enable_debug_info=True), encoding="utf-8")
            self.dumped += 1


def _context_bound(model: LoadedModel, options: CompileOptions) -> int:
    context = options.context or min(model.context, DEFAULT_CONTEXT)
    if context > model.context:
        raise UserError(
            f"{model.name} was made for {model.context} positions: no context of {context}"
        )
    return context


def _storage(model: LoadedModel, options: CompileOptions) -> str:
    if options.dtype != "as-is":
        return options.dtype
    return {"float16": "f16", "bfloat16": "bf16", "F16": "f16", "BF16": "bf16"}.get(
        model.storage, "f32"
    )


def _manifest(
    model: LoadedModel,
    skeleton: PreTrainedModel,
    options: CompileOptions,
    context: int,
    kv_bytes: int,
    target: CPUTarget,
    files: dict[str, bundle.FileFacts],
    work: _Work,
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
            dtype=_storage(model, options),
        ),
        context=context,
        kv_bytes_per_token=kv_bytes,
        tokenizer=model.tokenizer,
        target=target.facts,
        versions=versions(),
        files=files,
        compile=bundle.CompileFacts(
            seconds=sum(stage.seconds for stage in work.stages),
            stages=tuple(work.stages),
            options=asdict(options),
        ),
    )
