"""From a model's name to a bundle. Imports PyTorch and the compiler only when called."""

from contextlib import nullcontext
from pathlib import Path

from llmc.frontend.options import CompileOptions, Progress
from llmc.frontend.output_folder import check_free
from llmc.frontend.source import open_model
from llmc.frontend.toolchain import versions


def build_bundle(
    name: str,
    options: CompileOptions,
    output: Path,
    *,
    progress: Progress = nullcontext,
    dump_ir: Path | None = None,
) -> None:
    """Compiles the model called `name` into the bundle folder `output`; see `compile_model`."""
    check_free(output)
    versions()
    with progress("start"):
        from llmc.frontend.compile import compile_model
    with progress("open"):
        model = open_model(name, options.layers)
    compile_model(model, options, output, progress=progress, dump_ir=dump_ir)
