"""What llmc writes: text and data to standard output, all else to standard error."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper
from typing import TYPE_CHECKING, TextIO

from llmc.runtime.errors import UserError

if TYPE_CHECKING:
    from llmc.runtime import Generation, GenerationOptions


class OutputError(UserError):
    """Standard output takes no more."""


def show_any_text() -> None:
    """Lets standard output take text that its encoding lacks, escaped, as standard error does."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def write(output: str | bytes) -> None:
    """Writes text or data to standard output at once. Raises OutputError, BrokenPipeError."""
    if sys.stdout is None:
        raise OutputError("standard output is closed")
    try:
        if isinstance(output, str):
            sys.stdout.write(output)
        else:
            sys.stdout.buffer.write(output)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        drop(sys.stdout)
        raise OutputError(f"cannot write to standard output: {error.strerror}") from error


def drop(stream: TextIO) -> None:
    """Drops what `stream` holds, which Python would try to write at exit, and what comes then."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())


def standard_input() -> TextIOWrapper:
    """Where the user's text comes from; UserError if it is closed."""
    if not isinstance(sys.stdin, TextIOWrapper):
        raise UserError("standard input is closed")
    return sys.stdin


def note(text: str) -> None:
    """Tells the person, if anybody listens, something that is not output, on a line of its own."""
    if sys.stderr is None:  # for which print would take standard output
        return
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        drop(sys.stderr)


def is_cut(result: Generation, options: GenerationOptions) -> bool:
    """Whether the text ended because the context was full."""
    return result.finish_reason == "length" and len(result.token_ids) < options.max_new_tokens


def show_speed(result: Generation) -> None:
    """How fast the prompt was run, and the tokens after the first, which came with the prompt."""
    decoded = len(result.token_ids) - 1
    rows = (
        ("prefill", result.prefill_tokens, result.prefill_s, result.prefill_tokens_per_s),
        ("decode", decoded, result.decode_s, result.decode_tokens_per_s),
    )
    for name, tokens, seconds, speed in rows:
        if tokens > 0:
            note(f"{name:<8}{tokens:6} tokens {seconds:8.2f} s {speed:8.1f} tokens/s")
