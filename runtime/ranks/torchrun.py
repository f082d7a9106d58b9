"""Ranks that torchrun started on one machine, which find each other by what it tells them."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass

from llmc.runtime.errors import UserError
from llmc.runtime.ranks.communicator import Communicator
from llmc.runtime.ranks.launcher import TORCHRUN
from llmc.runtime.ranks.local import LocalCommunicator, share_memory
from llmc.runtime.ranks.rendezvous import LOOK_S, is_closed, join, process_of, share

_END_S = 5.0  # for others to end by themselves


def connect_to_local_ranks(environment: Mapping[str, str], timeout_s: float) -> Communicator:
    """The way to the other ranks; UserError where some are elsewhere, or do not come in time."""
    place = _Place.read(environment)
    if place.rank == 0:
        descriptor = share_memory(place.ranks)
        others = _Others(share(place.name, place.ranks, descriptor, timeout_s))
    else:
        connection, descriptor = join(place.name, place.rank, place.ranks, timeout_s)
        others = _Others({0: connection})
    communicator = LocalCommunicator(
        place.rank, place.ranks, descriptor, timeout_s, others.check, others.end
    )
    if place.rank == 0:
        atexit.register(_finish, communicator, others)
    return communicator


@dataclass(frozen=True)
class _Place:
    """Which of how many ranks this is, and what names their run."""

    rank: int
    ranks: int
    name: str

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> _Place:
        rank, ranks, here, address, port = (environment[name] for name in TORCHRUN)
        if here != ranks:
            raise UserError(f"torchrun has {here} of {ranks} ranks on this machine: use mpiexec")
        if not (rank.isdecimal() and ranks.isdecimal() and int(rank) < int(ranks)):
            raise UserError(f"there is no rank {rank!r} of {ranks!r}: see RANK and WORLD_SIZE")
        return cls(int(rank), int(ranks), f"{address[:64]}:{port[:5]}")


class _Others:
    """The processes that this one is connected to, by rank: rank 0 to all others, these to it.

    `are_ended` says whether this process has put an end to them.
    """

    def __init__(self, connections: Mapping[int, socket.socket]) -> None:
        self._connections = connections
        self.are_ended = False

    def check(self) -> None:
        """Raises UserError where one has ended."""
        for rank, connection in self._connections.items():
            if is_closed(connection):
                raise UserError(f"rank {rank} ended")

    def end(self) -> None:
        """Ends those that still run, on rank 0; they have nothing to lose."""
        self.are_ended = True
        for rank, connection in self._connections.items():
            if rank > 0 and not is_closed(connection):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process_of(connection), signal.SIGKILL)

    def wait(self) -> None:
        """Returns when all have ended, or have not in time."""
        end = time.monotonic() + _END_S
        while not all(map(is_closed, self._connections.values())) and time.monotonic() < end:
            time.sleep(LOOK_S)


def _finish(communicator: Communicator, others: _Others) -> None:
    """Lets the others end by themselves, as torchrun wants."""
    if communicator.agreed and not others.are_ended:
        with contextlib.suppress(UserError):
            communicator.announce(b"")
            others.wait()
