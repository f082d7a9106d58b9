"""Bytes from one process of a machine to another, through memory that both map."""

from __future__ import annotations

import ctypes
import mmap
import time

import numpy as np

from llmc.runtime.ranks.waiting import NAP_S, Waiting

# What is sent goes in pieces of at most this many bytes, of which the second cache holds both.
ROOM = 1 << 18
ROOMS = 2
_SEMAPHORE = 64  # bytes; a cache line, which is more than glibc's 32
_HEADER = 4096
CHANNEL = _HEADER + ROOMS * ROOM  # bytes, of whole pages

# The C library's, which let the interpreter run other threads only where they may take long.
_libc = ctypes.PyDLL(None)
_sleeping_libc = ctypes.CDLL(None)


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Semaphore:
    """A POSIX semaphore in shared memory."""

    def __init__(self, memory: mmap.mmap, offset: int) -> None:
        self._at = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(memory, offset)))

    def create(self, value: int) -> None:
        """Makes it, once, before all use."""
        _libc.sem_init(self._at, 1, value)

    def post(self) -> None:
        """Adds one."""
        _libc.sem_post(self._at)

    def take(self) -> bool:
        """Takes one, if there is any."""
        return _libc.sem_trywait(self._at) == 0

    def nap(self) -> bool:
        """Takes one, or none after NAP_S."""
        end = time.clock_gettime_ns(time.CLOCK_MONOTONIC) + int(NAP_S * 1e9)
        until = _Timespec(*divmod(end, 10**9))
        clock = ctypes.c_int(time.CLOCK_MONOTONIC)
        return _sleeping_libc.sem_clockwait(self._at, clock, ctypes.byref(until)) == 0


class Channel:
    """One direction between this rank and another: pieces of up to ROOM bytes arrive in order."""

    def __init__(self, memory: mmap.mmap, offset: int, waiting: Waiting, peer: str) -> None:
        """The channel in the CHANNEL bytes from `offset` on, whose other end `peer` has."""
        self._full, self._free = _semaphores(memory, offset)
        rooms = np.frombuffer(memory, np.uint8, ROOMS * ROOM, offset + _HEADER)
        self._rooms = rooms.reshape(ROOMS, ROOM)
        self._next = 0
        self._waiting = waiting
        self._peer = peer

    def put(self, piece: np.ndarray) -> None:
        """Sends bytes, once there is room for them."""
        self._waiting.until(self._free.take, self._free.nap, self._peer)
        self._rooms[self._next, : piece.size] = piece
        self._next = (self._next + 1) % ROOMS
        self._full.post()

    def take(self, piece: np.ndarray, patient: bool = False) -> None:
        """Makes `piece` the next bytes; see Waiting.until."""
        piece[:] = self.peek(piece.size, patient)
        self.release()

    def peek(self, size: int, patient: bool = False) -> np.ndarray:
        """The next `size` bytes, where they lie until `release`; see Waiting.until."""
        self._waiting.until(self._full.take, self._full.nap, self._peer, patient)
        return self._rooms[self._next, :size]

    def release(self) -> None:
        """Makes room again where `peek` looked."""
        self._next = (self._next + 1) % ROOMS
        self._free.post()


def create_channel(memory: mmap.mmap, offset: int) -> None:
    """Makes a channel in CHANNEL bytes of zeros; one process does, before any has one."""
    full, free = _semaphores(memory, offset)
    full.create(0)
    free.create(ROOMS)


def _semaphores(memory: mmap.mmap, offset: int) -> tuple[_Semaphore, _Semaphore]:
    """What counts the rooms that are full, and those that are free."""
    return _Semaphore(memory, offset), _Semaphore(memory, offset + _SEMAPHORE)
