"""What a person sees while a model is compiled."""

import argparse
import contextlib
import logging
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from llmc.frontend.options import Progress
from llmc.tools.terminal import note

if TYPE_CHECKING:
    from rich.console import Console

_STAGES = {
    "wait": "Waiting for another llmc that compiles the same model",
    "start": "Starting PyTorch and MLIR",
    "open": "Opening the model",
    "read": "Reading the weights",
    "export": "Exporting with torch.export",
    "torch": "Importing through torch-mlir",
    "import": "Lowering PyTorch's operations",
    "shard": "Splitting the model among ranks",
    "state": "Giving the module its KV cache",
    "weights": "Laying out the weights",
    "linalg": "Lowering to linalg",
    "iree": "Putting in the kernels",
    "code": "Compiling with IREE",
    "archive": "Writing the weights",
    "manifest": "Hashing the files",
}


@contextmanager
def compiling(arguments: argparse.Namespace) -> Iterator[Progress]:
    """Gives what shows stages. Hides, unless `-v` is given, what libraries tell programmers."""
    with _shown(arguments.verbose) as progress, warnings.catch_warnings():
        if not arguments.verbose:
            warnings.simplefilter("ignore")
            logging.disable()
        try:
            yield progress
        finally:
            logging.disable(logging.NOTSET)


@contextmanager
def _shown(verbose: bool) -> Iterator[Progress]:
    """Gives what shows the stages of a compilation, and how long each took.

    Where standard error is no terminal, the lines come when all is well, since an error is to be
    the only line there; with `verbose` they come as the stages end.
    """
    held: list[str] = []

    @contextmanager
    def show(name: str) -> Iterator[None]:
        console = _console()
        title = _STAGES.get(name, name)
        begin = time.perf_counter()
        with console.status(title) if console.is_terminal else contextlib.nullcontext():
            yield
        line = f"{title:<34}{time.perf_counter() - begin:6.1f} s"
        if console.is_terminal or verbose:
            note(line)
        else:
            held.append(line)

    yield show
    for line in held:
        note(line)


@cache
def _console() -> "Console":
    # Here, for a model that is compiled already has no stages, and memory matters to who runs it.
    from rich.console import Console

    return Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
