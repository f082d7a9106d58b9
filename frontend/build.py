"""From a model's name to a bundle. Imports PyTorch and the compiler only when called."""

from contextlib import nullcontext
from pathlib import Path

from llmc.frontend.options import CompileOptions, Progress
from llmc.frontend.output_folder import check_free
from llmc.frontend.source import open_model
from llmc.frontend.toolchain import versions
from llmc.runtime.heap import importing, imports_uncollected


def build_bundle(
    name: str,
    options: CompileOptions,
    output: Path,
    *,
    progress: Progress = nullcontext,
    dump_ir: Path | None = None,
    start_from: Path | None = None,
) -> None:
    """Compiles the model called `name` into the bundle folder `output`; see `compile_model`."""
    check_free(output)
    versions()
    with progress("start"), importing():
        from llmc.frontend.compile import compile_model
    with progress("open"), importing():
        model = open_model(name, options.layers)
    with imports_uncollected():
        compile_model(
            model, options, output, progress=progress, dump_ir=dump_ir, start_from=start_from
        )


def build_ir(
    name: str,
    options: CompileOptions,
    stop_after: str,
    *,
    progress: Progress = nullcontext,
    dump_ir: Path | None = None,
    start_from: Path | None = None,
) -> str:
    """The IR of the model called `name` after the stage `stop_after`; see `lower_to`."""
    versions()
    with progress("start"), importing():
        from llmc.frontend.compile import lower_to
    with progress("open"), importing():
        model = open_model(name, options.layers)
    with imports_uncollected():
        return lower_to(
            model, options, stop_after, progress=progress, dump_ir=dump_ir, start_from=start_from
        )
