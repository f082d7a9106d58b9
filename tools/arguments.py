"""Command-line options that several commands share, and how a wrong one is reported."""

import argparse
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

from llmc.frontend.options import DEFAULT_CONTEXT, DTYPES, KV_DTYPES, CompileOptions
from llmc.runtime import GenerationOptions, SamplingOptions, UserError
from llmc.runtime.ranks.waiting import TIMEOUT_S
from llmc.tools.terminal import write

_COMPILE_FIELDS = (
    "target",
    "dtype",
    "kv_dtype",
    "context",
    "layers",
    "grid",
    "plan",
    "overlap",
    "no_tuning",
)
# Those that only some commands have.
_STAGE_FIELDS = ("dump_ir", "stop_after", "start_from")


class ArgumentParser(argparse.ArgumentParser):
    """Raises UserError where argparse would print its usage."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, **settings)

    def error(self, message: str) -> NoReturn:
        """Called by argparse."""
        raise UserError(f"{message} (see {self.prog} --help)")

    def print_help(self, file: object = None) -> None:
        """Called by argparse."""
        write(self.format_help())


def positive(text: str) -> int:
    """An argument that is a whole number above 0."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number above 0, not {text!r}")
    return int(text)


def seconds(text: str) -> float:
    """An argument that is a time above 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number of seconds above 0, not {text!r}")
    return value


def unicode_text(text: str) -> str:
    """An argument that is text; the bytes of another encoding arrive as lone surrogates."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise argparse.ArgumentTypeError("is not valid UTF-8") from error
    return text


def some_text(text: str) -> str:
    """An argument that is text and not empty."""
    if not text:
        raise argparse.ArgumentTypeError("must not be empty")
    return unicode_text(text)


def add_model(parser: argparse.ArgumentParser) -> None:
    """What to run or compile."""
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="a Hugging Face folder, a GGUF file, a compiled bundle, or smollm2, the sample",
    )


def add_compile_options(parser: argparse.ArgumentParser) -> None:
    """How to compile a model that is not a bundle yet."""
    group = parser.add_argument_group("compilation, for a model that is not a bundle")
    group.add_argument(
        "--target",
        metavar="NAME,...",
        help="compile for cpu (default), vulkan or cuda, which are this machine's, or for one by "
        "name, as cpu:zen3, cpu:armv8.2, vulkan:rdna3, cuda:sm_89",
    )
    group.add_argument(
        "--dtype",
        choices=DTYPES,
        help="type to store matrices in; as-is keeps 16-bit ones and blocks (default f32)",
    )
    group.add_argument(
        "--kv-dtype",
        choices=KV_DTYPES,
        help="type of the KV cache: auto (default) is f32, f16 or q8_0, by what --dtype stores",
    )
    group.add_argument(
        "--context",
        type=positive,
        metavar="N",
        help=f"most tokens of prompt and answer (default: the model's, at most {DEFAULT_CONTEXT})",
    )
    group.add_argument("--layers", type=positive, metavar="N", help="keep the first N layers only")
    group.add_argument(
        "--grid",
        type=some_text,
        metavar="AXIS=N,...",
        help="split the model among ranks: tp=2 heads and MLPs, pp=2 layers, dp=2 sequences, ep=2 "
        "experts, sp=2 columns of the KV cache, or several, as dp=2,tp=2",
    )
    group.add_argument(
        "--plan",
        type=some_text,
        metavar="FILE",
        help="split the model as the plan in FILE says",
    )
    group.add_argument(
        "--overlap",
        action="store_true",
        default=None,
        help="let ranks compute one half of a prompt while they exchange the other",
    )
    group.add_argument(
        "--no-tuning",
        action="store_true",
        default=None,
        help="compile as if llmc tune had never run",
    )


def add_dump_ir(parser: argparse.ArgumentParser) -> None:
    """What to keep of a compilation besides the bundle."""
    parser.add_argument(
        "--dump-ir",
        type=Path,
        metavar="DIR",
        help="write the module after each stage of a compilation into DIR",
    )


def add_verbose(parser: argparse.ArgumentParser) -> None:
    """How much to tell; all commands that take MODEL have it."""
    parser.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="tell which bundle is used, and what a compilation does",
    )


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """How to run a bundle."""
    parser.add_argument(
        "--threads", type=positive, metavar="N", help="CPU threads (default: all it may use)"
    )


def add_device(parser: argparse.ArgumentParser) -> None:
    """Where to run a bundle."""
    parser.add_argument(
        "--device",
        metavar="NAME",
        help="cpu, vulkan, cuda, or one of several as vulkan:1 (default: the fastest that is here)",
    )


def add_ranks(parser: argparse.ArgumentParser) -> None:
    """How to run a bundle of several ranks."""
    group = parser.add_argument_group("ranks, for a bundle with a grid")
    group.add_argument(
        "--local",
        action="store_true",
        help="start them on this machine, with --threads each (default: their share of its CPUs)",
    )
    group.add_argument(
        "--timeout",
        type=seconds,
        default=TIMEOUT_S,
        metavar="SECONDS",
        help=f"end the run when a rank takes no part for so long (default {TIMEOUT_S:g})",
    )


def add_generation_options(parser: argparse.ArgumentParser) -> None:
    """How to choose tokens and when to stop; without any, the likeliest token is taken."""
    usual = SamplingOptions()
    group = parser.add_argument_group("generation")
    group.add_argument(
        "--max-new-tokens",
        type=positive,
        metavar="N",
        help=f"tokens to generate at most (default {GenerationOptions().max_new_tokens})",
    )
    group.add_argument(
        "--temperature",
        type=float,
        metavar="T",
        help=f"randomness: {usual.temperature:g}, the default, takes the likeliest token",
    )
    group.add_argument(
        "--top-k",
        type=int,
        metavar="K",
        help="with a temperature, draw from the K likeliest tokens",
    )
    group.add_argument(
        "--top-p",
        type=float,
        metavar="P",
        help="with a temperature, draw from the likeliest that sum to P",
    )
    group.add_argument(
        "--min-p",
        type=float,
        metavar="P",
        help="with a temperature, draw from those at least P times the likeliest",
    )
    group.add_argument(
        "--repetition-penalty",
        type=float,
        metavar="R",
        help="above 1 makes tokens that were seen less likely",
    )
    group.add_argument(
        "--seed",
        type=int,
        metavar="S",
        help="with a temperature, the same seed draws the same text",
    )
    group.add_argument(
        "--stop",
        action="append",
        type=some_text,
        metavar="STR",
        help="end the text before STR; may be given more than once",
    )


def compile_options(arguments: argparse.Namespace) -> CompileOptions:
    """What `add_compile_options` parsed, by default for the device to run on.

    UserError for a value out of range.
    """
    given = _given(arguments, _COMPILE_FIELDS)
    if device := getattr(arguments, "device", None):
        given.setdefault("target", device.partition(":")[0])
    return CompileOptions(**given)


def given_compile_options(arguments: argparse.Namespace) -> list[str]:
    """The options that ask for something of a compilation, as they are written."""
    names = _given(arguments, (*_COMPILE_FIELDS, *_STAGE_FIELDS))
    return [f"--{name.replace('_', '-')}" for name in names]


def generation_options(arguments: argparse.Namespace) -> GenerationOptions:
    """What `add_generation_options` parsed; UserError for a value out of range."""
    sampling = SamplingOptions(**_given(arguments, SamplingOptions.__dataclass_fields__))
    general = _given(arguments, ("max_new_tokens",))
    return GenerationOptions(stop=tuple(arguments.stop or ()), sampling=sampling, **general)


def _given(arguments: argparse.Namespace, names: Iterable[str]) -> dict[str, Any]:
    values = {name: getattr(arguments, name, None) for name in names}
    return {name: value for name, value in values.items() if value is not None}
