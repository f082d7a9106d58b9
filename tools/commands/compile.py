"""`llmc compile`: a model into a bundle."""

import argparse
import shutil
from pathlib import Path

from llmc.frontend.build import build_bundle, build_ir
from llmc.frontend.options import CompileOptions
from llmc.frontend.output_folder import appearing, writing
from llmc.runtime import UserError
from llmc.runtime.manifest import MANIFEST, Manifest
from llmc.tools.arguments import (
    add_compile_options,
    add_dump_ir,
    add_model,
    add_verbose,
    compile_options,
)
from llmc.tools.bundles import advise_on_dtype, find_bundle, is_bundle
from llmc.tools.commands.inspect import describe
from llmc.tools.compiling import compiling
from llmc.tools.terminal import note, write

HELP = "compile a model into a bundle"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    add_model(parser)
    parser.add_argument(
        "-o",
        dest="output",
        type=Path,
        metavar="DIR",
        help="the bundle's folder; a bundle there is replaced (default: a folder in the cache)",
    )
    add_verbose(parser)
    add_dump_ir(parser)
    add_compile_options(parser)
    stages = parser.add_argument_group("stages, for compiler engineers")
    stages.add_argument(
        "--stop-after",
        metavar="STAGE",
        help="write the IR after STAGE to -o FILE, or to standard output, and no bundle",
    )
    stages.add_argument(
        "--start-from",
        type=Path,
        metavar="FILE",
        help="go on from the IR in FILE, one that --dump-ir wrote: its name says the stage",
    )


def run(arguments: argparse.Namespace) -> None:
    """Prints the bundle's folder. A bundle is verified, and copied if `-o` is given."""
    options = compile_options(arguments)
    folder = arguments.output
    if is_bundle(arguments):
        folder = _verified_copy(Path(arguments.model), folder)
    elif arguments.stop_after is not None:
        _write_ir(arguments, options)
        return
    elif folder is None and arguments.start_from is not None:
        raise UserError("--start-from needs -o DIR: what it makes is not for the cache")
    elif folder is None:
        folder, _ = find_bundle(arguments)
    else:
        with compiling(arguments) as progress:
            build_bundle(
                arguments.model,
                options,
                folder,
                progress=progress,
                dump_ir=arguments.dump_ir,
                start_from=arguments.start_from,
            )
        advise_on_dtype(arguments, folder)
    manifest = Manifest.read(folder)
    if arguments.verbose:
        note("\n".join(describe(manifest)))
    elif manifest.compile.tuned_kernels:
        note(f"{manifest.compile.tuned_kernels} kernels are as llmc tune found them fastest")
    write(f"{folder}\n")


def _write_ir(arguments: argparse.Namespace, options: CompileOptions) -> None:
    with compiling(arguments) as progress:
        text = build_ir(
            arguments.model,
            options,
            arguments.stop_after,
            progress=progress,
            dump_ir=arguments.dump_ir,
            start_from=arguments.start_from,
        )
    if arguments.output is None:
        write(text)
    else:
        with writing(arguments.output):
            arguments.output.write_text(text, encoding="utf-8")


def _verified_copy(source: Path, output: Path | None) -> Path:
    """A copy of the bundle `source` in `output`, or `source` itself without one."""
    manifest = Manifest.read(source)
    manifest.verify_hashes(source)
    if output is None:
        return source
    with appearing(output) as folder, writing(output):
        for name in (*manifest.files, MANIFEST):
            shutil.copyfile(source / name, folder / name)
    return output
