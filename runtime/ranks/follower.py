"""Any rank but the first: opens its part of a bundle, and follows rank 0."""

from pathlib import Path

from llmc.runtime.opening import find_module, open_engine
from llmc.runtime.ranks.agreement import agreement
from llmc.runtime.ranks.communicator import Communicator
from llmc.runtime.ranks.steps import follow


def run_follower(
    communicator: Communicator, folder: Path, threads: int | None, device: str | None
) -> None:
    """Returns when rank 0 ends the run. UserError where it cannot begin or go on."""
    with agreement(communicator, folder):
        manifest, placement = find_module(folder, device, communicator)
        engine = open_engine(manifest, placement, folder, threads, communicator)
    follow(engine, communicator)
