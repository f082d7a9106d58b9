"""`llmc run`: a prompt, and the model's answer."""

import argparse
import json
import resource
import sys

from llmc.runtime import Generation, Model, UserError
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
    unicode_text,
)
from llmc.tools.models import load_model
from llmc.tools.terminal import is_cut, note, show_speed, standard_input, write

HELP = "generate text after a prompt"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    add_model(parser)
    parser.add_argument(
        "--prompt",
        required=True,
        type=unicode_text,
        metavar="TEXT",
        help="what to answer; - reads it from standard input, less a newline at its end",
    )
    parser.add_argument(
        "--raw", action="store_true", help="continue the prompt as it is, without chat template"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end")
    add_run_options(parser)
    add_device(parser)
    add_ranks(parser)
    add_generation_options(parser)
    add_verbose(parser)
    add_dump_ir(parser)
    add_compile_options(parser)


def run(arguments: argparse.Namespace) -> None:
    """Streams the answer to standard output, and how fast it was to standard error."""
    options = generation_options(arguments)
    prompt = _read_input() if arguments.prompt == "-" else arguments.prompt
    model, compile_s = load_model(arguments)
    for step in model.stream_tokens(model.encode(prompt, arguments.raw), options):
        piece, result = step
        if not arguments.json:
            write(piece)
    if arguments.json:
        write(json.dumps(_facts(prompt, result, model, compile_s)) + "\n")
        return
    write("\n")
    if is_cut(result, options):
        note(f"the context of {model.manifest.context} tokens is full")
    show_speed(result)


def _read_input() -> str:
    try:
        text = str(standard_input().buffer.read(), "utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"the prompt on standard input is not valid UTF-8 (byte {error.start})"
        ) from error
    return text.removesuffix("\n")


def _facts(prompt: str, result: Generation, model: Model, compile_s: float) -> dict[str, object]:
    # In kilobytes, but in bytes on macOS: getrusage(2).
    unit = 1 if sys.platform == "darwin" else 1024
    return {
        "prompt": prompt,
        "prompt_token_ids": result.prompt_token_ids,
        "token_ids": result.token_ids,
        "text": result.text,
        "finish_reason": result.finish_reason,
        "prefill_tokens_per_s": result.prefill_tokens_per_s,
        "decode_tokens_per_s": result.decode_tokens_per_s,
        "load_s": model.load_s,
        "compile_s": compile_s,
        "bytes_moved": model.communicator.moved if model.communicator else 0,
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit,
    }
