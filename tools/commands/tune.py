"""`llmc tune`: finds the best parameters of a model's kernels on this machine."""

import argparse
import json
import re
from contextlib import suppress
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from llmc.frontend.options import CompileOptions
from llmc.frontend.toolchain import versions
from llmc.frontend.tuned import database_path, forget
from llmc.frontend.tuning_report import table
from llmc.pipelines.tuning.database import Database, Entry
from llmc.pipelines.tuning.versions import kernel_versions
from llmc.runtime import UserError
from llmc.runtime.devices import usable_cpus
from llmc.runtime.heap import importing
from llmc.tools.arguments import (
    add_compile_options,
    add_run_options,
    add_verbose,
    compile_options,
    positive,
)
from llmc.tools.bundles import is_bundle
from llmc.tools.compiling import compiling
from llmc.tools.tables import write_table
from llmc.tools.terminal import note, write

HELP = "find what makes a model's kernels fastest on this machine, for compilations to come"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument(
        "model",
        nargs="?",
        metavar="MODEL",
        help="a Hugging Face folder, a GGUF file, or smollm2, the sample; no bundle",
    )
    parser.add_argument(
        "--kernels",
        type=_pattern,
        default="",
        metavar="REGEX",
        help="tune only kernels in whose kind REGEX is found, as in matvec",
    )
    parser.add_argument(
        "--seconds",
        type=positive,
        default=300,
        metavar="N",
        help="try nothing new after N seconds, which the kernels share (default 300)",
    )
    parser.add_argument("--list", action="store_true", help="print what was found until now")
    parser.add_argument("--forget", action="store_true", help="remove what was found until now")
    parser.add_argument("--json", action="store_true", help="print the kernels as JSON at the end")
    add_run_options(parser)
    add_verbose(parser)
    add_compile_options(parser)


def run(arguments: argparse.Namespace) -> None:
    """Prints a table of kernels, or a JSON list of them."""
    if arguments.forget or arguments.list:
        _check_alone(arguments)
    if arguments.forget:
        note(f"{database_path()}: {'removed' if forget() else 'there is none'}")
        return
    if arguments.list:
        entries = list(Database.read(database_path()))
        _tell_of_others(entries)
    elif arguments.model is None:
        raise UserError("llmc tune needs a MODEL, --list or --forget")
    else:
        entries = _tune(arguments)
    if arguments.json:
        write(json.dumps([asdict(entry) for entry in entries], indent=2) + "\n")
    elif entries:
        write_table(table(entries))
    elif arguments.list:
        note("nothing was found until now: llmc tune MODEL")


def _check_alone(arguments: argparse.Namespace) -> None:
    """UserError where --list or --forget is given with what chooses among kernels."""
    if arguments.forget and arguments.list:
        raise UserError("give --list or --forget, not both")
    if arguments.model is not None:
        raise UserError("--list and --forget are of all models: leave out MODEL")
    if arguments.kernels or compile_options(arguments) != CompileOptions():
        raise UserError("--list and --forget are of all kernels: leave out what chooses some")


def _tell_of_others(entries: list[Entry]) -> None:
    """Says how many of `entries` no compilation uses; nothing where no compiler is installed."""
    with suppress(PackageNotFoundError):
        now = kernel_versions()
        if others := sum(entry.key.versions != now for entry in entries):
            note(f"{others} were measured with other versions: compilations do not use them")


def _tune(arguments: argparse.Namespace) -> list[Entry]:
    versions()
    options = compile_options(arguments)
    if is_bundle(arguments):
        raise UserError(f"{arguments.model} is compiled already: tune the model it was made of")
    with importing():
        # Here, for --list needs no compiler.
        from llmc.frontend.tuning import tune_model

    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    bar = Progress(*columns, console=Console(stderr=True))
    with compiling(arguments) as progress, bar:
        task = bar.add_task("", total=1.0, visible=False)
        entries = list(
            tune_model(
                arguments.model,
                options,
                arguments.threads or usable_cpus(),
                pattern=arguments.kernels,
                seconds=arguments.seconds,
                progress=progress,
                advance=lambda kernel, part: bar.update(
                    task, description=kernel, completed=part, visible=True
                ),
            )
        )
    found = [entry for entry in entries if entry is not None]
    if left := len(entries) - len(found):
        note(f"{left} kernels stay as they are: no time to try others (--seconds), or none to try")
    return found


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"is no regular expression: {error}") from error
    return text
