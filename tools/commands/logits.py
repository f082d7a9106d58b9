"""`llmc logits`: the numbers behind the next token, for comparing with anything."""

import argparse
from io import BytesIO
from pathlib import Path

import numpy as np

from llmc.frontend.output_folder import writing
from llmc.runtime.draft import replacing
from llmc.tools.arguments import (
    add_compile_options,
    add_device,
    add_dump_ir,
    add_model,
    add_ranks,
    add_run_options,
    add_verbose,
)
from llmc.tools.models import load_model

HELP = "write the logits after some tokens to a file"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    add_model(parser)
    parser.add_argument(
        "--tokens", required=True, type=_token_ids, metavar="ID,ID,...", help="the token ids to run"
    )
    parser.add_argument(
        "--all", action="store_true", help="after each token, not only after the last"
    )
    parser.add_argument(
        "-o",
        dest="output",
        required=True,
        type=Path,
        metavar="FILE.npy",
        help="where to write them: float32 [vocabulary], with --all [tokens, vocabulary]",
    )
    add_run_options(parser)
    add_device(parser)
    add_ranks(parser)
    add_verbose(parser)
    add_dump_ir(parser)
    add_compile_options(parser)


def run(arguments: argparse.Namespace) -> None:
    """Writes the file, which appears whole or not at all."""
    model, _ = load_model(arguments)
    _save(model.logits(arguments.tokens, every=arguments.all), arguments.output)


def _token_ids(text: str) -> list[int]:
    try:
        ids = [int(token) for token in text.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError("must be whole numbers with commas between") from error
    if min(ids) < 0:
        raise argparse.ArgumentTypeError(f"there is no token {min(ids)}: ids begin at 0")
    return ids


def _save(logits: np.ndarray, output: Path) -> None:
    with writing(output):
        if output.exists() and not output.is_file():  # a device or a pipe, which has no places
            held = BytesIO()
            np.save(held, logits)
            output.write_bytes(held.getvalue())
            return
        with replacing(output) as draft, draft.open("wb") as file:
            np.save(file, logits)
