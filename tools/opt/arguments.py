"""The command line of `llmc-opt`, as LLVM's tools take theirs.

Options may be written with one dash or two and switches as `--switch=0`. What is no option is a
pass: `--fuse-qkv`, `--pack-weights='columns=8 rows=4'`, run in the order given.
"""

import argparse
from collections.abc import Iterator
from typing import Any, NoReturn

from llmc.runtime.errors import UserError
from llmc.tools.opt.flags import DEFAULTS_ON, REFUSED, SEPARATOR, SWITCHES, WITHOUT_VALUE
from llmc.tools.terminal import write

_EPILOG = """\
Any other option is a pass or a named pipeline to run, with its own options as the value:
  llmc-opt model.mlir --fuse-qkv --pack-weights='columns=8 rows=4' --canonicalize
--list-passes and --list-pipelines list ours; those of MLIR and torch-mlir go by their names."""

_HELP = ("--help", "--help-hidden", "--help-list", "--help-list-hidden")
_BOOLEANS = {"1": True, "true": True, "0": False, "false": False}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Called by argparse."""
        raise UserError(f"{message} (see {self.prog} --help)")

    def print_help(self, file: object = None) -> None:
        """Called by argparse."""
        write(self.format_help())


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
        usage="llmc-opt [FILE] [OPTIONS] [PASSES]",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        add_help=False,
    )
    parser.set_defaults(steps=[])
    parser.add_argument("file", nargs="?", default="-", help="MLIR; - is standard input")
    parser.add_argument("-h", *_HELP, action="help", help="show this and exit")
    parser.add_argument("-o", "--o", dest="output", default="-", metavar="FILE", help="the output")
    _add_steps(parser)
    groups = {
        title: parser if title == "llmc-opt" else parser.add_argument_group(title)
        for title in SWITCHES
    }
    for title, switches in SWITCHES.items():
        for name, text in switches.items():
            default = name in DEFAULTS_ON
            groups[title].add_argument(
                f"--{name}", type=_boolean, default=default, metavar="", help=text
            )
    _add_input_values(parser)
    _add_printing_values(groups["printing"])
    _add_diagnostic_values(groups["diagnostics"])
    return parser


def _add_steps(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--pass-pipeline",
        metavar="PIPELINE",
        help="what to run, as in 'builtin.module(fuse-qkv,func.func(canonicalize,cse))'",
    )
    parser.add_argument("--pass", action=_Step, help=argparse.SUPPRESS)
    parser.add_argument(
        "--schedule",
        action=_Step,
        type=_given,
        metavar="NAME{OPTIONS}",
        help="apply a schedule of ours, as in 'matvec{rows=16}'",
    )
    parser.add_argument(
        "--schedule-file",
        action=_Step,
        type=_given,
        metavar="FILE",
        help="apply a schedule of yours: mine.py:FUNCTION, or a transform library mine.mlir",
    )


def _given(text: str) -> str:
    """What is empty is a variable of a shell's that was never set."""
    if not text.strip():
        raise argparse.ArgumentTypeError("must not be empty")
    return text


def _add_input_values(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--reproducer",
        "--mlir-pass-pipeline-crash-reproducer",
        metavar="FILE",
        help="when a pass fails, write a file that shows it with one command",
    )
    parser.add_argument(
        "--mlir-generate-reproducer",
        metavar="FILE",
        help="write such a file in any case, with the whole pipeline",
    )
    parser.add_argument(
        "--mlir-pass-pipeline-local-reproducer", type=_boolean, help=argparse.SUPPRESS
    )
    parser.add_argument(
        "--split-input-file",
        metavar="MARKER",
        help=f"take the parts between lines of MARKER, by default '{SEPARATOR}', one by one",
    )
    parser.add_argument(
        "--output-split-marker",
        default=SEPARATOR,
        metavar="MARKER",
        help="what to write between the parts",
    )
    parser.add_argument(
        "--emit-bytecode-version", type=_count, metavar="N", help="which bytecode to write"
    )


def _add_printing_values(group: "argparse._ActionsContainer") -> None:
    for when in ("before", "after"):
        group.add_argument(
            f"--mlir-print-ir-{when}",
            action="append",
            default=[],
            metavar="PASS,...",
            help=f"print the IR {when} these passes",
        )
    group.add_argument(
        "--mlir-print-ir-tree-dir", metavar="DIR", help="print the IR into files below DIR instead"
    )
    group.add_argument(
        "--mlir-elide-elementsattrs-if-larger",
        type=_count,
        metavar="N",
        help="print constants of more than N elements as '...'",
    )
    group.add_argument(
        "--mlir-elide-resource-strings-if-larger",
        type=_count,
        metavar="N",
        help="print resources of more than N letters as '...'",
    )
    group.add_argument(
        "--mlir-timing-display",
        choices=("tree", "list"),
        default="tree",
        help="passes below their anchors, or the longest first",
    )


def _add_diagnostic_values(group: "argparse._ActionsContainer") -> None:
    group.add_argument(
        "--verify-diagnostics",
        choices=("all", "only-expected"),
        help="hold what is emitted against comments // expected-error {{...}}",
    )
    group.add_argument(
        "--mlir-diagnostic-verbosity-level",
        choices=("errors", "warnings", "remarks"),
        default="remarks",
        help="what to show",
    )


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) >= 2**63:
        raise argparse.ArgumentTypeError(f"must be a whole number, not {text!r}")
    return int(text)


def _boolean(text: str) -> bool:
    if text.lower() not in _BOOLEANS:
        raise argparse.ArgumentTypeError(f"takes true or false, not '{text}'")
    return _BOOLEANS[text.lower()]


def _normalised(arguments: list[str], parser: argparse.ArgumentParser) -> Iterator[str]:
    """Arguments with two dashes; switches with a value; passes as values of `--pass`."""
    known = set(parser._option_string_actions)
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if name in ("-", "--", "-h") or not name.startswith("-"):
            yield argument
            continue
        name = name.lstrip("-")
        if name in REFUSED:
            raise UserError(f"llmc-opt cannot take --{name}: {REFUSED[name]}")
        if name in WITHOUT_VALUE and not equals:
            yield f"--{name}={WITHOUT_VALUE[name]}"
        elif f"--{name}" in known:
            yield f"--{name}{equals}{value}"
        else:
            braces = "" if not equals or value.startswith("{") else "{}"
            yield f"--pass={name}{braces[:1]}{value}{braces[1:]}"
