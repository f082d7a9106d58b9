"""`llmc`: the command line. Finds the command, runs it, and reports what went wrong."""

import signal
import sys
from importlib import import_module

from llmc.pipelines.errors import IREEError
from llmc.runtime.errors import UserError, printable
from llmc.tools.arguments import ArgumentParser
from llmc.tools.terminal import drop, note, show_any_text

_COMMANDS = (
    "run",
    "chat",
    "compile",
    "plan",
    "comm",
    "inspect",
    "logits",
    "devices",
    "reduce",
    "bench",
    "tune",
)
_DESCRIPTION = "Compiles large language models and runs them."
_EPILOG = "Models are compiled once: bundles are kept in $LLMC_CACHE, by default ~/.cache/llmc."


def main(words: list[str] | None = None) -> int:
    """Runs the command in `words`, by default those of the command line; the exit status.

    That is 0, 1 where IREE fails, 2 for what the user can mend, and 128 and a signal's number after
    Ctrl-C or when standard output is closed.
    """
    show_any_text()
    try:
        words = sys.argv[1:] if words is None else words
        arguments = _parser(words).parse_args(words)
        arguments.run(arguments)
    except UserError as error:
        note(f"llmc: error: {printable(error)}")
        return 2
    except IREEError as error:
        note(str(error))
        advice = "try another --dtype or --target, and report it with what --dump-ir DIR writes"
        note(f"llmc: error: IREE cannot compile this: {printable(error.first)}: {advice}")
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:
        drop(sys.stdout)
        return 128 + signal.SIGPIPE
    return 0


def _parser(words: list[str]) -> ArgumentParser:
    """Of the command that `words` begin with alone, if they do: others would take time and memory.

    A command is a module of `llmc.tools.commands`.
    """
    parser = ArgumentParser(prog="llmc", description=_DESCRIPTION, epilog=_EPILOG)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    named = [word for word in words[:1] if word in _COMMANDS]
    for name in named or _COMMANDS:
        command = import_module(f"llmc.tools.commands.{name}")
        subparser = commands.add_parser(name, help=command.HELP, description=command.HELP)
        command.add_arguments(subparser)
        subparser.set_defaults(run=command.run)
    return parser
