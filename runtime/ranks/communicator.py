"""What ranks that run one model do together, and how many bytes that moves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Literal

import numpy as np

from llmc.runtime.ranks.cpus import CPUShare

# Ranks that take part in a collective, in the order of their pieces.
Group = tuple[int, ...]
# Waits for the end of what was started.
Finish = Callable[[], None]
Operation = Literal[
    "all_reduce", "all_gather", "reduce_scatter", "broadcast", "send", "receive", "shift"
]


def bytes_moved(operation: Operation, size: int, members: int) -> int:
    """Bytes that a rank sends in `operation` on `size` bytes in a group of `members`.

    `size` is that of the whole, before it is scattered or after it is gathered. Where ranks send
    together it is what each does in a ring, which moves the least: a fraction is dropped.
    """
    if members == 1 or operation == "receive":
        return 0
    if operation == "all_reduce":
        return 2 * size * (members - 1) // members
    if operation in ("all_gather", "reduce_scatter"):
        return size * (members - 1) // members
    return size


class Communicator(ABC):
    """A rank's way to the others.

    Arrays are contiguous, of one axis; reductions are of float32. All ranks of a group call the
    same with arrays of the same size, where no other is said, and get the same bits. What `start_`
    begins goes on, and needs its arrays, until what that returns is called; all ranks start and
    finish in the same order. Whoever waits for a rank that is dead, or takes no part for longer
    than the timeout, raises UserError. `moved` counts the bytes that this rank's collectives sent,
    as `bytes_moved` has them; `agreed` says that all ranks have opened the same bundle.
    """

    def __init__(self, rank: int, ranks: int, cpus: CPUShare) -> None:
        """`rank` is this process's, of so many; `cpus` is its share of the machine's."""
        self.rank = rank
        self.cpus = cpus
        self.agreed = False
        self.moved = 0
        self.world: Group = tuple(range(ranks))

    @abstractmethod
    def start_all_reduce(self, x: np.ndarray, group: Group) -> Finish:
        """Makes `x` the sum over the group."""

    @abstractmethod
    def start_all_gather(self, x: np.ndarray, gathered: np.ndarray, group: Group) -> Finish:
        """Makes `gathered` the bytes of all ranks' `x`, in order."""

    @abstractmethod
    def start_reduce_scatter(self, x: np.ndarray, piece: np.ndarray, group: Group) -> Finish:
        """Makes `piece` the sum over the group of its part of `x`, all parts being of one size."""

    @abstractmethod
    def start_shift(self, x: np.ndarray, shifted: np.ndarray, to: int, source: int) -> Finish:
        """Sends `x` to the rank `to` while `shifted` becomes what `source` sends."""

    @abstractmethod
    def broadcast(self, x: np.ndarray, root: int, group: Group) -> None:
        """Makes `x` that of the rank `root`."""

    @abstractmethod
    def send(self, x: np.ndarray, to: int) -> None:
        """Sends `x` to the rank `to`, which calls `receive`."""

    @abstractmethod
    def receive(self, x: np.ndarray, source: int, *, patient: bool = False) -> None:
        """Makes `x` what the rank `source` sends; `patient` waits for it without a timeout."""

    @abstractmethod
    def abandon(self) -> None:
        """Called where this rank fails in the middle of something: it ends the run on all."""

    def send_message(self, message: bytes, to: int) -> None:
        """Sends bytes of any number to the rank `to`, which calls `receive_message`."""
        self.send(np.array([len(message)], np.int64), to)
        self.send(np.frombuffer(message, np.uint8), to)

    def receive_message(self, source: int, *, patient: bool = False) -> bytes:
        """What the rank `source` sends; `patient` waits for its start without a timeout."""
        size = np.empty(1, np.int64)
        self.receive(size, source, patient=patient)
        content = np.empty(size[0], np.uint8)
        self.receive(content, source)
        return content.tobytes()

    def announce(self, message: bytes) -> None:
        """Gives `message` to all other ranks, which call `listen` on rank 0."""
        for rank in self.world[1:]:
            self.send_message(message, rank)

    def listen(self) -> bytes:
        """What rank 0 announces next, however long that takes."""
        return self.receive_message(0, patient=True)

    def gather_messages(self, message: bytes) -> list[bytes]:
        """The message of each rank, on all of them."""
        ranks = len(self.world)
        size, sizes = np.array([len(message)], np.int64), np.empty(ranks, np.int64)
        self.start_all_gather(size.view(np.uint8), sizes.view(np.uint8), self.world)()
        filled_up = np.zeros(sizes.max(), np.uint8)
        filled_up[: len(message)] = np.frombuffer(message, np.uint8)
        gathered = np.empty((ranks, sizes.max()), np.uint8)
        self.start_all_gather(filled_up, gathered.reshape(-1), self.world)()
        return [row[:size].tobytes() for row, size in zip(gathered, sizes, strict=True)]
