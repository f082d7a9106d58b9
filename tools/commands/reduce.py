"""`llmc reduce`: a module down to what still shows a bug."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from llmc.frontend.output_folder import writing
from llmc.frontend.toolchain import needing_compiler
from llmc.pipelines.reduction.command import PLACE, Command
from llmc.runtime.devices import usable_cpus
from llmc.tools.arguments import positive, seconds
from llmc.tools.terminal import note, write
from llmc.tools.text_files import read_text

HELP = "cut a file of MLIR down to what still shows a bug"
_EPILOG = f"""
The shell runs CMD on ever smaller modules, each in a file whose path comes last, or stands for
{PLACE} where CMD has that. A module is kept if CMD ends as it does on FILE: with the same exit
status, by the same signal, or by running out of time. Which status means that the bug is there
is up to you: tests for mlir-reduce (1: it is) and for llvm-reduce and C-Reduce (0: it is) are both
fine, as long as CMD ends otherwise where the bug is not.

  llmc reduce bad.mlir --test "llmc-opt --pass-pipeline='builtin.module(my-pass)'" -o small.mlir
      keeps what my-pass fails on, in whatever way
  llmc reduce bad.mlir --test "llmc-opt {PLACE} --my-pass 2>&1 | grep -q 'heads differ'"
      keeps what gives this message

What CMD prints is dropped. Unregistered operations are taken as they are; locations are not kept.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.epilog = _EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("file", metavar="FILE", type=Path, help="the module, as MLIR text")
    parser.add_argument("--test", required=True, metavar="CMD", help="tells if the bug is there")
    parser.add_argument(
        "-o",
        dest="output",
        type=Path,
        metavar="FILE",
        help="where to write the smallest module so far (default: the last one to standard output)",
    )
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=60.0,
        metavar="SECONDS",
        help="how long CMD may run on one module (default 60)",
    )
    parser.add_argument(
        "--jobs",
        type=positive,
        default=usable_cpus(),
        metavar="N",
        help="how many modules to try at once (default: one for each CPU)",
    )


def run(arguments: argparse.Namespace) -> None:
    """Notes each step's size; what was found by then is in the output file if interrupted."""
    command = Command(arguments.test, arguments.timeout)
    text = ""
    reduce = _load_reduce()
    for candidate in reduce(read_text(arguments.file), command, arguments.jobs):
        note(f"{candidate.operations:7} operations {len(candidate.text):9} letters")
        text = candidate.text.rstrip("\n") + "\n"
        if arguments.output is not None:
            with writing(arguments.output):
                arguments.output.write_text(text, encoding="utf-8")
    if arguments.output is None:
        write(text)


def _load_reduce() -> Callable[..., Any]:
    with needing_compiler("reducing"):
        # Here, since no other command needs to wait for MLIR, nor to have it.
        from llmc.pipelines.reduction.reduce import reduce
    return reduce
