"""Ranks that are processes of one machine: each writes to the others in memory that they share."""

from __future__ import annotations

import mmap
import os
import weakref
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from llmc.runtime.errors import UserError
from llmc.runtime.ranks.channel import CHANNEL, ROOM, Channel, create_channel
from llmc.runtime.ranks.communicator import Communicator, Group
from llmc.runtime.ranks.cpus import CPUShare
from llmc.runtime.ranks.waiting import Waiting


def share_memory(ranks: int) -> int:
    """A file descriptor of memory through which so many ranks communicate.

    It is gone with the last process that has it. UserError where the system has none.
    """
    if not hasattr(os, "memfd_create"):
        raise UserError("ranks on one machine need Linux: use mpiexec")
    descriptor = os.memfd_create("llmc-ranks")
    os.ftruncate(descriptor, ranks * ranks * CHANNEL)  # takes no room until it is written to
    memory = mmap.mmap(descriptor, 0)
    for at in range(0, len(memory), CHANNEL):
        create_channel(memory, at)
    return descriptor


class LocalCommunicator(Communicator):
    """Communicates through memory that `share_memory` made."""

    def __init__(
        self,
        rank: int,
        ranks: int,
        descriptor: int,
        timeout_s: float,
        check: Callable[[], None],
        end: Callable[[], None],
    ) -> None:
        """`check` raises UserError where a rank is dead.

        `end` ends the others; it is called with the end of this object, too.
        """
        super().__init__(rank, ranks, CPUShare(rank, ranks))
        self._end = weakref.finalize(self, end)
        memory = mmap.mmap(descriptor, 0)
        os.close(descriptor)
        waiting = Waiting(timeout_s, has_own_cpu=self.cpus.is_own, check=check)

        def channel(source: int, to: int, other: int) -> Channel:
            return Channel(memory, (source * ranks + to) * CHANNEL, waiting, f"rank {other}")

        others = self._others(self.world)
        self._to = {other: channel(rank, other, other) for other in others}
        self._from = {other: channel(other, rank, other) for other in others}

    def all_reduce(self, x: np.ndarray, group: Group) -> None:
        """Every rank adds up what all others sent."""
        self._sum(dict.fromkeys(self._others(group), x), x, x, group)

    def sizes(self, size: int, group: Group) -> list[int]:
        """Gathers them."""
        found = np.empty(len(group), np.int64)
        mine = np.array([size], np.int64).view(np.uint8)
        self.all_gather(mine, found.view(np.uint8), [mine.size] * len(group), group)
        return found.tolist()

    def all_gather(
        self, x: np.ndarray, gathered: np.ndarray, sizes: list[int], group: Group
    ) -> None:
        """Every rank sends to all others."""
        pieces = np.split(gathered, np.cumsum(sizes)[:-1])
        into = dict(zip(group, pieces, strict=True))
        into.pop(self.rank)[:] = x
        self._exchange(dict.fromkeys(into, x), into)

    def reduce_scatter(self, x: np.ndarray, piece: np.ndarray, group: Group) -> None:
        """Every rank adds up what all others sent of its part."""
        parts = dict(zip(group, np.split(x, len(group)), strict=True))
        mine = parts.pop(self.rank)
        self._sum(parts, mine, piece, group)

    def broadcast(self, x: np.ndarray, root: int, group: Group) -> None:
        """The root sends to all others."""
        if self.rank == root:
            self._exchange(dict.fromkeys(self._others(group), x), {})
        else:
            self.receive(x, root)

    def send(self, x: np.ndarray, to: int) -> None:
        """Returns when there is room for the last of it."""
        self._exchange({to: x}, {})

    def receive(self, x: np.ndarray, source: int, *, patient: bool = False) -> None:
        """Copies it from where the other rank put it."""
        self._exchange({}, {source: x}, patient=patient)

    def shift(self, x: np.ndarray, shifted: np.ndarray, to: int, source: int) -> None:
        """Sends and receives by turns."""
        self._exchange({to: x}, {source: shifted})

    def abandon(self) -> None:
        """Ends the others."""
        self._end()

    def _others(self, group: Group) -> list[int]:
        return [rank for rank in group if rank != self.rank]

    def _sum(
        self, outgoing: Mapping[int, np.ndarray], mine: np.ndarray, total: np.ndarray, group: Group
    ) -> None:
        """Makes `total` the sum of `mine` and of what others send, who get `outgoing`."""
        step = ROOM // mine.itemsize
        sizes = dict.fromkeys(outgoing, mine.nbytes)
        for at, rooms in enumerate(self._rooms(outgoing, sizes)):
            part = slice(at * step, (at + 1) * step)
            rooms[self.rank] = mine[part].view(np.uint8)
            # In the order of the group, so that all ranks get the same bits.
            first, *between, last = (rooms[rank].view(np.float32) for rank in group)
            for piece in between:
                first = first + piece
            np.add(first, last, out=total[part])

    def _exchange(
        self,
        outgoing: Mapping[int, np.ndarray],
        incoming: Mapping[int, np.ndarray],
        *,
        patient: bool = False,
    ) -> None:
        """Sends arrays to ranks, and makes those in `incoming` what ranks send."""
        into = {rank: array.view(np.uint8) for rank, array in incoming.items()}
        sizes = {rank: array.size for rank, array in into.items()}
        for at, rooms in enumerate(self._rooms(outgoing, sizes, patient=patient)):
            for rank, room in rooms.items():
                into[rank][at * ROOM : (at + 1) * ROOM] = room

    def _rooms(
        self,
        outgoing: Mapping[int, np.ndarray],
        sizes: Mapping[int, int],
        *,
        patient: bool = False,
    ) -> Iterator[dict[int, np.ndarray]]:
        """Sends arrays to ranks, and yields the bytes that ranks send, ROOM of each at a time.

        `sizes` are how many come from each.
        """
        data = {rank: array.view(np.uint8) for rank, array in outgoing.items()}
        longest = max((*sizes.values(), *(array.size for array in data.values())), default=0)
        for at in range(0, longest, ROOM):
            for rank, array in data.items():
                if at < array.size:
                    self._to[rank].put(array[at : at + ROOM])
            rooms = {
                rank: self._from[rank].peek(min(size - at, ROOM), patient)
                for rank, size in sizes.items()
                if at < size
            }
            senders = list(rooms)
            yield rooms
            for rank in senders:
                self._from[rank].release()
