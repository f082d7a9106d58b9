"""From the MODEL of a command line to a bundle, compiled into the cache where need be."""

import argparse
from pathlib import Path

from llmc.frontend.options import BLOCK_DTYPES, CompileOptions
from llmc.frontend.source import source_files
from llmc.runtime import UserError
from llmc.runtime.manifest import MANIFEST, MODULE, Manifest, ModuleFacts
from llmc.tools.arguments import compile_options, given_compile_options
from llmc.tools.terminal import note

# An archive of so many times the bytes of the model's files is worth a word, and so is one with a
# smaller part in the blocks that were asked for.
_MUCH_LARGER = 1.5
_NEARLY_ALL = 0.9


def find_bundle(arguments: argparse.Namespace) -> tuple[Path, float]:
    """The bundle that MODEL is, or is compiled into; and the seconds spent on compiling it.

    Raises UserError, IREEError.
    """
    if is_bundle(arguments):
        return Path(arguments.model), 0.0
    options = compile_options(arguments)
    # Here, for who runs a bundle needs none of it, and `filelock` comes with the compiler.
    from llmc.frontend.toolchain import needing_compiler

    with needing_compiler("compiling a model"):
        from llmc.frontend.cache import cached_bundle
    from llmc.tools.compiling import compiling

    with compiling(arguments) as progress:
        cached = cached_bundle(
            arguments.model, options, progress=progress, dump_ir=arguments.dump_ir
        )
    if cached.compile_s:
        advise_on_dtype(arguments, cached.folder)
    return cached.folder, cached.compile_s


def is_bundle(arguments: argparse.Namespace) -> bool:
    """Whether MODEL is a bundle, maybe a damaged one. UserError if it is to be compiled anew."""
    folder = Path(arguments.model)
    try:
        names = {name for name in ("config.json", MANIFEST, MODULE) if (folder / name).exists()}
    except OSError as error:
        raise UserError(f"cannot read {folder}: {error.strerror}") from error
    found = bool(names) and "config.json" not in names
    if found and (given := given_compile_options(arguments)):
        raise UserError(f"{folder} is compiled already: {given[0]} is for a model that is not")
    return found


def advise_on_dtype(arguments: argparse.Namespace, bundle: Path) -> None:
    """Tells who chose no `--dtype` of a better one, where the model's files hold fewer bits.

    Who chose blocks is told where much could not be cut into them. Of a bundle for several targets,
    which have archives of their own, it counts the first one's. Raises UserError where a file of
    either cannot be read.
    """
    manifest = Manifest.read(bundle)
    if arguments.dtype is not None:
        if arguments.dtype in BLOCK_DTYPES:
            _tell_of_other_types(manifest.modules[0], arguments.dtype)
        return
    first, *_ = manifest.modules
    archives = {code.parameters for code in manifest.modules if code.target == first.target}
    written = sum(manifest.files[name].size for name in archives)
    try:
        read = sum(file.stat().st_size for file in source_files(arguments.model))
    except OSError as error:
        raise UserError(f"cannot read {error.filename}: {error.strerror}") from error
    if written > _MUCH_LARGER * read:
        note(
            f"stored as {CompileOptions.dtype}, {written / 1e6:.0f} MB; the model's files have "
            f"{read / 1e6:.0f} MB: --dtype as-is keeps their weights, for faster text"
        )


def _tell_of_other_types(code: ModuleFacts, asked: str) -> None:
    total = sum(code.weight_bytes.values())
    if code.weight_bytes.get(asked, 0) >= _NEARLY_ALL * total:
        return
    parts = ", ".join(f"{count / total:.0%} {type_}" for type_, count in code.types_by_bytes)
    note(
        f"not all weights can be {asked}: stored are {parts}; rows of a matrix must be whole "
        "blocks, and tables that are only looked up stay floats"
    )
