"""A model in, a bundle out: the whole of `llmc compile` as one function."""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path

from torch_mlir import ir
from transformers import PreTrainedModel

from llmc.frontend.importer import import_programs
from llmc.frontend.interception import IMPLEMENTATION
from llmc.frontend.loaded_model import LoadedModel
from llmc.frontend.programs import VARIANTS, export_variant
from llmc.pipelines import pipeline
from llmc.pipelines.iree import compile_module
from llmc.pipelines.parameters import kv_bytes_per_token, stored_parameters, write_archive
from llmc.pipelines.targets.cpu import CPUTarget
from llmc.runtime import manifest as bundle
from llmc.runtime.errors import UserError

DTYPES = ("f32", "f16", "bf16", "as-is")
# Without --context: what a chat rarely exceeds. The KV cache is allocated by use, not by bound.
DEFAULT_CONTEXT = 8192

Progress = Callable[[str], AbstractContextManager[object]]


@dataclass(frozen=True)
class CompileOptions:
    """How to compile.

    `dtype` is the type that matrices are stored in (arithmetic is in float32); `as-is` keeps 16-bit
    weights as the checkpoint has them. `context` bounds the tokens of a sequence. `layers` keeps
    only the first so many.
    """

    target: str = "cpu"
    dtype: str = "f32"
    context: int | None = None
    layers: int | None = None

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise UserError(f"dtype must be one of {', '.join(DTYPES)}, not {self.dtype!r}")
        for name in ("context", "layers"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UserError(f"{name} must be at least 1, not {value}")


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
    work = _Work(progress, dump_ir)
    context = _context_bound(model, options)
    target = CPUTarget.parse(options.target)
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
    pipeline.run(pipeline.HAND_OVER, module)
    work.dump(pipeline.HAND_OVER.name, module)
    with _appearing(output) as folder:
        with work.stage("iree"):
            compile_module(module, target, folder / bundle.MODULE)
        with work.stage("archive"):
            values = {**dict(skeleton.named_buffers()), **model.weights()}
            write_archive(stored, values, folder / bundle.PARAMETERS)
            (folder / bundle.TOKENIZER).write_text(model.tokenizer_json, encoding="utf-8")
        with work.stage("manifest"):
            files = (bundle.MODULE, bundle.PARAMETERS, bundle.TOKENIZER)
            facts = {name: bundle.FileFacts.of(folder / name) for name in files}
        _manifest(model, skeleton, options, context, kv_bytes, target, facts, work).write(folder)


def versions() -> dict[str, str]:
    """The packages that decide what a bundle is, and their versions here."""
    packages = ("llmc-compiler", "torch", "torch-mlir", "iree-base-compiler", "transformers")
    return {name: version(name) for name in packages}


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
            self.dump_folder.mkdir(parents=True, exist_ok=True)
            path = self.dump_folder / f"{self.dumped:02}-{name}.mlir"
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


@contextmanager
def _appearing(output: Path) -> Iterator[Path]:
    """A temporary folder beside `output` that becomes `output` at the end, or vanishes."""
    parent = output.absolute().parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f".{output.name}.", dir=parent))
    except OSError as error:
        raise UserError(f"cannot write {output}: {error.strerror}") from error
    try:
        yield folder
        folder.chmod(0o755)
        _put(folder, output)
    except OSError as error:
        raise UserError(f"cannot write {output}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _put(folder: Path, output: Path) -> None:
    """Renames `folder` to `output`, in the place of a bundle that may be there."""
    if (output / bundle.MANIFEST).is_file():
        shutil.rmtree(output)
    folder.rename(output)


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
