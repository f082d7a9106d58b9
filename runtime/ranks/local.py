"""Ranks that are processes of one machine: each writes to the others in memory that they share."""

from __future__ import annotations

import mmap
import os
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np

from llmc.runtime.ranks.channel import CHANNEL, ROOM, ROOMS, Channel, create_channel
from llmc.runtime.ranks.communicator import Communicator, Finish, Group
from llmc.runtime.ranks.cpus import CPUShare, require_linux
from llmc.runtime.ranks.waiting import Waiting

# Sends and receives by turns, and says after each sending whether it was the last.
_Steps = Iterator[bool]


def share_memory(ranks: int) -> int:
    """A file descriptor of memory through which so many ranks communicate.

    It is gone with the last process that has it. UserError outside Linux.
    """
    require_linux()
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

        self._under_way: deque[_Steps] = deque()
        self._is_all_sent = True
        others = self._others(self.world)
        self._to = {other: channel(rank, other, other) for other in others}
        self._from = {other: channel(other, rank, other) for other in others}

    def start_all_reduce(self, x: np.ndarray, group: Group) -> Finish:
        """Every rank adds up what all others sent."""
        return self._start(self._sum(dict.fromkeys(self._others(group), x), x, x, group))

    def start_all_gather(self, x: np.ndarray, gathered: np.ndarray, group: Group) -> Finish:
        """Every rank sends to all others."""
        into = dict(zip(group, gathered.reshape(len(group), -1), strict=True))
        into.pop(self.rank)[:] = x
        return self._start(self._exchange(dict.fromkeys(into, x), into))

    def start_reduce_scatter(self, x: np.ndarray, piece: np.ndarray, group: Group) -> Finish:
        """Every rank adds up what all others sent of its part."""
        parts = dict(zip(group, x.reshape(len(group), -1), strict=True))
        mine = parts.pop(self.rank)
        return self._start(self._sum(parts, mine, piece, group))

    def start_shift(self, x: np.ndarray, shifted: np.ndarray, to: int, source: int) -> Finish:
        """Of as much to one rank as from the other."""
        outgoing, incoming = {to: x.view(np.uint8)}, {source: shifted.view(np.uint8)}
        return self._start(self._exchange(outgoing, incoming))

    def broadcast(self, x: np.ndarray, root: int, group: Group) -> None:
        """The root sends to all others."""
        if self.rank == root:
            outgoing = dict.fromkeys(self._others(group), x.view(np.uint8))
            self._start(self._exchange(outgoing, {}))()
        else:
            self.receive(x, root)

    def send(self, x: np.ndarray, to: int) -> None:
        """Returns when there is room for the last of it."""
        self._start(self._exchange({to: x.view(np.uint8)}, {}))()

    def receive(self, x: np.ndarray, source: int, *, patient: bool = False) -> None:
        """Copies it from where the other rank put it."""
        self._start(self._exchange({}, {source: x.view(np.uint8)}, patient=patient))()

    def abandon(self) -> None:
        """Ends the others."""
        self._end()

    def _others(self, group: Group) -> list[int]:
        return [rank for rank in group if rank != self.rank]

    def _sum(
        self, outgoing: Mapping[int, np.ndarray], mine: np.ndarray, total: np.ndarray, group: Group
    ) -> _Steps:
        """Makes `total` the sum of `mine` and of what others send, who get `outgoing`."""
        step = ROOM // mine.itemsize
        others = [self._from[rank] for rank in outgoing]
        for at in range(0, mine.size, step):
            part = slice(at, at + step)
            for rank, array in outgoing.items():
                self._to[rank].put(array[part].view(np.uint8))
            yield part.stop >= mine.size
            own = mine[part]
            sent = iter([other.peek(own.nbytes).view(np.float32) for other in others])
            # In the order of the group, so that all ranks get the same bits.
            first, *between, last = (own if rank == self.rank else next(sent) for rank in group)
            for piece in between:
                first = first + piece
            np.add(first, last, out=total[part])
            for other in others:
                other.release()

    def _exchange(
        self,
        outgoing: Mapping[int, np.ndarray],
        incoming: Mapping[int, np.ndarray],
        *,
        patient: bool = False,
    ) -> _Steps:
        """Sends bytes to ranks, and makes `incoming` what ranks send, all of one length."""
        size = max([array.size for array in (*outgoing.values(), *incoming.values())], default=0)
        for at in range(0, size, ROOM):
            part = slice(at, at + ROOM)
            for rank, array in outgoing.items():
                self._to[rank].put(array[part])
            yield part.stop >= size
            for rank, array in incoming.items():
                self._from[rank].take(array[part], patient)

    def _start(self, steps: _Steps) -> Finish:
        # Channels keep the order of what is sent. What is under way, all of it sent, takes one of
        # their rooms each; where no room is left, or not all is sent, it ends before the next.
        if self._under_way and not (self._is_all_sent and len(self._under_way) < ROOMS):
            self._finish(self._under_way[-1])
        self._is_all_sent = next(steps, True)
        self._under_way.append(steps)
        return partial(self._finish, steps)

    def _finish(self, last: _Steps) -> None:
        """Finishes what is under way, in its order, up to `last`."""
        while last in self._under_way:
            for _ in self._under_way[0]:
                pass
            self._under_way.popleft()
