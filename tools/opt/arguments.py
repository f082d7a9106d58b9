"""The command line of `llmc-opt`, as LLVM's tools take theirs.

Options may be written with one dash or two and switches as `--switch=0`. What is no option is a
pass: `--fuse-qkv`, `--pack-weights='columns=8 rows=4'`, run in the order given.
"""

import argparse
from collections.abc import Iterator
from typing import Any, NoReturn

from llmc.runtime.errors import UserError

_EPILOG = """\
Any other option is a pass or a named pipeline to run, with its own options as the value:
  llmc-opt model.mlir --fuse-qkv --pack-weights='columns=8 rows=4' --canonicalize
--list-passes and --list-pipelines list ours; those of MLIR and torch-mlir go by their names."""

_SWITCHES = {
    "llmc-opt": {
        "allow-unregistered-dialect": "accept operations of dialects that are not known",
        "emit-bytecode": "write bytecode",
        "no-implicit-module": "do not put a module around what is not one",
        "run-reproducer": "run the pipeline that the file, a reproducer, holds",
        "split-input-file": "take the parts between lines '// -----' one by one",
        "verify-diagnostics": "hold what is emitted against comments // expected-error {{...}}",
        "verify-each": "verify the IR after each pass (the default)",
    },
    "listings": {
        "list-passes": "list the passes of llmc",
        "list-pipelines": "list the named pipelines of llmc",
        "list-schedules": "list the schedules of llmc",
        "show-dialects": "list the dialects",
        "dump-pass-pipeline": "print the pipeline before it runs, passes and their options",
        "dump-schedule": "print the transform script of --schedule, and run nothing",
    },
    "printing": {
        "mlir-print-ir-before-all": "print the IR before each pass",
        "mlir-print-ir-after-all": "print the IR after each pass",
        "mlir-print-ir-after-change": "print the IR after each pass that changed it",
        "mlir-print-ir-after-failure": "print the IR after a pass that failed",
        "mlir-print-ir-module-scope": "print the whole module in these cases",
        "mlir-print-op-generic": "print operations in the generic form",
        "mlir-print-debuginfo": "print locations",
        "mlir-pretty-debuginfo": "print locations for people to read",
        "mlir-print-local-scope": "print without aliases",
        "mlir-timing": "print how long each pass took",
        "mlir-disable-threading": "use one thread",
    },
}
_DEFAULTS_ON = {"verify-each"}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Called by argparse."""
        raise UserError(f"{message} (see {self.prog} --help)")


class _Step(argparse.Action):
    """Appends to one list, so that passes and schedules keep their order."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Called by argparse."""
        namespace.steps = [*namespace.steps, (str(option_string).lstrip("-"), values)]


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    """The options as attributes, `-` as `_`; `steps` lists passes and schedules in their order.

    A step is a pair of `pass`, `schedule` or `schedule-file`, and its text. UserError for what the
    command does not take.
    """
    parser = _parser()
    return parser.parse_args(list(_normalised(arguments, parser)))


def _parser() -> _Parser:
    parser = _Parser(
        prog="llmc-opt",
        description="Runs passes, ours and MLIR's, on a file of MLIR, as mlir-opt does.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(steps=[])
    parser.add_argument("file", nargs="?", default="-", help="MLIR; - is standard input")
    parser.add_argument("-o", dest="output", default="-", metavar="FILE", help="where to write")
    parser.add_argument(
        "--pass-pipeline",
        metavar="PIPELINE",
        help="what to run, as in 'builtin.module(fuse-qkv,func.func(canonicalize,cse))'",
    )
    parser.add_argument("--pass", action=_Step, help=argparse.SUPPRESS)
    parser.add_argument(
        "--schedule",
        action=_Step,
        metavar="NAME{OPTIONS}",
        help="apply a schedule of ours, as in 'matvec{rows=16}'",
    )
    parser.add_argument(
        "--schedule-file",
        action=_Step,
        metavar="FILE",
        help="apply a schedule of yours: mine.py:FUNCTION, or a transform library mine.mlir",
    )
    parser.add_argument(
        "--reproducer",
        "--mlir-pass-pipeline-crash-reproducer",
        metavar="FILE",
        help="when a pass fails, write a file that shows it with one command",
    )
    for title, switches in _SWITCHES.items():
        group = parser if title == "llmc-opt" else parser.add_argument_group(title)
        for name, text in switches.items():
            group.add_argument(
                f"--{name}", action="store_true", default=name in _DEFAULTS_ON, help=text
            )
            group.add_argument(
                f"--not-{name}",
                dest=name.replace("-", "_"),
                action="store_false",
                help=argparse.SUPPRESS,
            )
    _add_printing_values(parser)
    return parser


def _add_printing_values(parser: argparse.ArgumentParser) -> None:
    for when in ("before", "after"):
        parser.add_argument(
            f"--mlir-print-ir-{when}",
            action="append",
            default=[],
            metavar="PASS,...",
            help=f"print the IR {when} these passes",
        )
    parser.add_argument(
        "--mlir-elide-elementsattrs-if-larger",
        type=_count,
        metavar="N",
        help="print constants of more than N elements as '...'",
    )
    parser.add_argument(
        "--mlir-elide-resource-strings-if-larger",
        type=_count,
        metavar="N",
        help="print resources of more than N letters as '...'",
    )


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be a whole number, not {text!r}")
    return int(text)


def _normalised(arguments: list[str], parser: argparse.ArgumentParser) -> Iterator[str]:
    """Arguments with two dashes; switches without a value; passes as values of `--pass`."""
    switches = {f"--{name}" for names in _SWITCHES.values() for name in names}
    known = set(parser._option_string_actions)
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if name in ("-", "--", "-o", "-h") or not name.startswith("-"):
            yield value if name == "-o" and equals else argument
            continue
        name = f"--{name.lstrip('-')}"
        if name in switches and equals:
            yield name if _boolean(name, value) else f"--not-{name[2:]}"
        elif name in known:
            yield name + equals + value
        else:
            yield f"--pass={name[2:]}" + (f"{{{value}}}" if equals else "")


def _boolean(name: str, text: str) -> bool:
    values = {"1": True, "true": True, "0": False, "false": False}
    if text.lower() not in values:
        raise UserError(f"{name} takes true or false, not '{text}'")
    return values[text.lower()]
