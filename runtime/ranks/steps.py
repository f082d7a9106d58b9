"""Calls of the engine that all ranks make: rank 0 announces them, and the others follow."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from llmc.runtime.errors import RankError, UserError
from llmc.runtime.ranks.collective_module import Collectives
from llmc.runtime.ranks.communicator import Communicator
from llmc.runtime.ranks.interrupts import uninterrupted
from llmc.runtime.runner import Output, Runner, Together

_CALLS = frozenset({"reset", "prefill", "prefill_batch", "decode", "greedy", "sample"})
_OUTPUT_CALLS: dict[str, Callable[..., Any]] = {
    "find_top": Output.find_top,
    "logits": lambda output: output.logits,
}


def in_step(communicator: Communicator, collectives: Collectives) -> Together:
    """What surrounds each call of this rank's engine.

    Ctrl-C waits for its end, and what fails on one rank ends the run on all.
    """
    ended = False

    @contextmanager
    def together(name: str, *arguments: object) -> Iterator[None]:
        nonlocal ended
        if ended:
            raise RankError("the ranks of this model have ended: load it again")
        with uninterrupted(), communicator.cpus.kept():
            try:
                if communicator.rank == 0:
                    communicator.announce(json.dumps([name, *arguments]).encode())
                yield
            except BaseException as error:
                ended = True
                communicator.abandon()
                cause = collectives.failure or error
                collectives.failure = None  # whose traceback has all that is in use, itself too
                if isinstance(cause, UserError):
                    raise RankError(str(cause)) from None
                raise cause from None

    return together


def follow(engine: Runner, communicator: Communicator) -> None:
    """Makes the calls that rank 0 announces, until it ends the run, or one fails."""
    output: Output | None = None
    try:
        while message := communicator.listen():
            name, *arguments = json.loads(message)
            if output is not None and name in _OUTPUT_CALLS:
                _OUTPUT_CALLS[name](output, *arguments)
            elif name in _CALLS:
                output = getattr(engine, name)(*arguments)
    except BaseException:
        communicator.abandon()  # rank 0 may be in the middle of the call already
        raise
