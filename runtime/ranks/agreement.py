"""Ranks that are about to run a model find out whether all have the same."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from llmc.runtime.errors import UserError
from llmc.runtime.manifest import MANIFEST, FileFacts
from llmc.runtime.ranks.communicator import Communicator


@contextmanager
def agreement(communicator: Communicator, folder: Path) -> Iterator[None]:
    """Surrounds the opening of the bundle in `folder`, on all ranks.

    Raises the same UserError on all where it fails on one, or they differ in llmc or the bundle.
    """
    failure = ""
    try:
        yield
    except UserError as error:
        failure = str(error)
    mine = {
        "failure": failure,
        "llmc": _version(),
        "bundle": _digest(folder / MANIFEST),
    }
    try:
        messages = communicator.gather_messages(json.dumps(mine).encode())
    except UserError:
        communicator.abandon()
        raise
    first, *others = (json.loads(message) for message in messages)
    if first["failure"]:
        raise UserError(first["failure"])
    for rank, other in enumerate(others, 1):
        if other["failure"]:
            raise UserError(f"rank {rank}: {other['failure']}")
        if other["llmc"] != first["llmc"]:
            raise UserError(
                f"rank {rank} has llmc {other['llmc']}, and rank 0 has {first['llmc']}: "
                "install the same on all"
            )
        if other["bundle"] != first["bundle"]:
            raise UserError(f"rank {rank} has another bundle than rank 0: give all the same")
    communicator.agreed = True


def _version() -> str:
    # Here, for it brings readers of mail and of archives, which one device alone does without.
    from importlib.metadata import version

    return version("llmc-compiler")


def _digest(path: Path) -> str:
    try:
        return FileFacts.of(path).sha256
    except OSError:
        return ""
