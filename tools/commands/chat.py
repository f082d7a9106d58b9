"""`llmc chat`: a conversation in the terminal, or with a program through pipes."""

import argparse
import contextlib
from copy import copy
from dataclasses import asdict

from llmc.runtime import Generation, Model, RankError, UserError
from llmc.runtime.errors import printable
from llmc.tools.arguments import (
    add_compile_options,
    add_device,
    add_dump_ir,
    add_generation_options,
    add_model,
    add_ranks,
    add_run_options,
    add_verbose,
    generation_options,
)
from llmc.tools.models import load_model
from llmc.tools.terminal import OutputError, is_cut, note, show_speed, standard_input, write

HELP = "talk with a model"

_COMMANDS = """\
/reset                 forget the conversation
/stats                 how fast the last answer was, and how full the context is
/set NAME=VALUE ...    change options, such as temperature=0.7 top_k=40; without any, show them
/help                  this list
/exit                  leave, as Ctrl-D does
Ctrl-C stops an answer. A message may begin with / after a space."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    add_model(parser)
    add_run_options(parser)
    add_device(parser)
    add_ranks(parser)
    add_generation_options(parser)
    add_verbose(parser)
    add_dump_ir(parser)
    add_compile_options(parser)


def run(arguments: argparse.Namespace) -> None:
    """Reads messages until `/exit` or the end of the input."""
    generation_options(arguments)  # before a model is compiled in vain
    model, _ = load_model(arguments)
    if model.manifest.tokenizer.chat_template is None:
        raise UserError(f"{arguments.model} has no chat template: use llmc run --raw")
    _Conversation(model, arguments).hold()


class _Conversation:
    def __init__(self, model: Model, arguments: argparse.Namespace) -> None:
        self._chat = model.chat()
        self._context = model.manifest.context
        self._arguments = arguments
        self._options = generation_options(arguments)
        self._last: Generation | None = None

    def hold(self) -> None:
        """Takes lines and answers them. What is wrong with one is told, and the next is read."""
        lines = standard_input()
        if lines.isatty():
            with contextlib.suppress(ImportError):  # a Python built without it
                import readline  # noqa: F401 (gives `input` line editing and a history)
            note("Type a message, /help for commands, Ctrl-D to leave.")
        # A message in another encoding is one bad message, which the tokenizer reports.
        lines.reconfigure(encoding="utf-8", errors="surrogateescape")
        while (line := _read_line()) is not None and line.strip() != "/exit":
            try:
                if line.startswith("/"):
                    self._command(line)
                elif line.strip():
                    self._answer(line.strip())
            except (OutputError, RankError):
                raise
            except UserError as error:
                note(f"error: {printable(error)}")

    def _answer(self, message: str) -> None:
        steps = self._chat.send(message, self._options)
        try:
            # Closed at once when interrupted, so that what was said until then is kept.
            with contextlib.closing(steps):
                for piece, self._last in steps:
                    if piece:
                        write(piece)
        except KeyboardInterrupt:
            write("\n")
            note("(stopped)")
            return
        write("\n")
        if self._last is not None and is_cut(self._last, self._options):
            note(f"(the context of {self._context} tokens is full: /reset begins anew)")

    def _command(self, line: str) -> None:
        name, *words = line.split()
        match name, words:
            case "/reset", []:
                self._chat.reset()
            case "/stats", []:
                self._show_stats()
            case "/set", _:
                self._set(words)
            case "/help", []:
                note(_COMMANDS)
            case _:
                raise UserError(f"there is no command {line.strip()}: /help lists them")

    def _show_stats(self) -> None:
        if self._last is not None:
            show_speed(self._last)
        note(f"context {self._chat.tokens:6} of {self._context} tokens")

    def _set(self, words: list[str]) -> None:
        """Changes all that is named, or nothing, and shows the options."""
        changed = _changed(self._arguments, words)
        self._options = generation_options(changed)
        self._arguments = changed
        values = asdict(self._options)
        values |= values.pop("sampling")
        note(" ".join(f"{name}={value}" for name, value in values.items()))


def _changed(arguments: argparse.Namespace, words: list[str]) -> argparse.Namespace:
    """A copy of `arguments` with each NAME=VALUE taken as the command line takes --name VALUE.

    Stop strings take the place of those that there were; `stop=` alone leaves none.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    add_generation_options(parser)
    changed = copy(arguments)
    if any(word.startswith("stop=") for word in words):
        changed.stop = None
    for word in (word for word in words if word != "stop="):
        name, _, value = word.partition("=")
        try:
            option = f"--{name.replace('_', '-')}={value}"
            _, unknown = parser.parse_known_args([option], changed)
        except argparse.ArgumentError as error:
            raise UserError(f"{name}: {error.message}") from error
        if unknown:
            raise UserError(f"there is no option {name}: /set alone shows them")
    return changed


def _read_line() -> str | None:
    """The next line, None at the end of the input. Ctrl-C empties a line that is being typed."""
    typed = standard_input().isatty()
    while True:
        try:
            return input("> " if typed else "")
        except EOFError:
            if typed:
                write("\n")
            return None
        except KeyboardInterrupt:
            if not typed:
                raise
            write("\n")
