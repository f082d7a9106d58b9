"""Processes of one machine meet at a socket, where the first gives the others shared memory.

The socket's name is no file's, so nothing is left of it; a connection closes with the process at
its other end.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
from collections.abc import Iterable

from llmc.runtime.errors import UserError

_NUMBER = struct.Struct("q")
_CREDENTIALS = struct.Struct("3i")  # of a process: its number, its user, its group
LOOK_S = 0.01


def share(name: str, ranks: int, descriptor: int, timeout_s: float) -> dict[int, socket.socket]:
    """Gives all ranks but the first the file `descriptor`; the connections to them.

    UserError where one does not come in time or ends, or others have a socket called `name`.
    """
    connections: dict[int, socket.socket] = {}
    end = time.monotonic() + timeout_s
    with socket.socket(socket.AF_UNIX) as listener:
        try:
            listener.bind(_address(name))
        except OSError as error:
            raise UserError(f"another run has met at {name}: give it another port") from error
        listener.listen()
        while missing := set(range(1, ranks)) - set(connections):
            listener.settimeout(max(end - time.monotonic(), LOOK_S))
            try:
                connection, _ = listener.accept()
            except TimeoutError as error:
                raise UserError(_late(min(missing), timeout_s)) from error
            rank = _rank_of(connection, missing)
            if rank is not None:
                connections[rank] = connection
                _give(connection, rank, ranks, descriptor)
    return connections


def join(name: str, rank: int, ranks: int, timeout_s: float) -> tuple[socket.socket, int]:
    """The connection to the first rank, and the file descriptor that it gives to this one.

    UserError where it does not in time.
    """
    end = time.monotonic() + timeout_s
    connection = _connection(name, end)
    try:
        connection.settimeout(max(end - time.monotonic(), LOOK_S))
        connection.sendall(_NUMBER.pack(rank))
        message, descriptors, *_ = socket.recv_fds(connection, _NUMBER.size, 1)
    except OSError as error:
        raise UserError(_late(0, timeout_s)) from error
    if message != _NUMBER.pack(ranks) or len(descriptors) != 1 or not _is_own(connection):
        raise UserError(f"another run has met at {name}: give it another port")
    return connection, descriptors[0]


def is_closed(connection: socket.socket) -> bool:
    """Whether the process at the other end has ended."""
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def process_of(connection: socket.socket) -> int:
    """The number of the process that joined."""
    return _credentials(connection)[0]


def _connection(name: str, end: float) -> socket.socket:
    """A connection to the process that shares under `name`; unconnected if none does by `end`."""
    connection = socket.socket(socket.AF_UNIX)
    while connection.connect_ex(_address(name)) and time.monotonic() < end:
        time.sleep(LOOK_S)
    return connection


def _give(connection: socket.socket, rank: int, ranks: int, descriptor: int) -> None:
    try:
        socket.send_fds(connection, [_NUMBER.pack(ranks)], [descriptor])
    except OSError as error:
        raise UserError(f"rank {rank} ended") from error


def _address(name: str) -> str:
    return f"\0llmc {os.getuid()} {name}"


def _rank_of(connection: socket.socket, missing: Iterable[int]) -> int | None:
    """Which of the `missing` ranks joined; None for anyone else."""
    connection.settimeout(1.0)
    with contextlib.suppress(OSError):
        message = connection.recv(_NUMBER.size) if _is_own(connection) else b""
        if len(message) == _NUMBER.size and (rank := _NUMBER.unpack(message)[0]) in missing:
            return rank
    connection.close()
    return None


def _is_own(connection: socket.socket) -> bool:
    """Whether a process of this user is at the other end."""
    return _credentials(connection)[1] == os.getuid()


def _credentials(connection: socket.socket) -> tuple[int, int, int]:
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return _CREDENTIALS.unpack(found)


def _late(rank: int, timeout_s: float) -> str:
    return f"rank {rank} took no part for {timeout_s:g} s: see --timeout"
