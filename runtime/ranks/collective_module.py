"""The runtime module `collective`, whose functions compiled code calls to reach other ranks.

    all_reduce    (x: ?xf32, axes: i32) -> ?xf32             the sum, in the place of x
    all_gather    (x: ?xT, axes: i32) -> ?xT                 the pieces, of one length, in order
    reduce_scatter(x: ?xf32, axes: i32) -> ?xf32             this rank's part of the sum
    broadcast     (x: ?xT, root: i32, axes: i32) -> ?xT      root's x, in the place of x; only
                                                             what a call returns is broadcast
    send          (x: ?xT, to: i32, axes: i32)
    receive       (length: i64, from: i32, axes: i32) -> ?xf32
    shift         (x: ?xT, by: i32, axes: i32) -> ?xT        to the position this far on, cyclic

    start_all_reduce(x: ?xf32, axes: i32) -> i32             begins it, and so do start_all_gather,
                                                             start_reduce_scatter, start_shift
    finish        (started: i32) -> ?xf32                    waits for what was begun
    finish_after  (y: ?xf32, started: i32) -> ?xf32          the same, once y is computed

`axes` is a bit mask of the grid's axes. It names the group: the ranks that differ from this one
along these axes alone, ascending; other ranks are given by their position in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import iree.runtime as rt
import numpy as np

from llmc.runtime.ranks.communicator import Communicator, Finish, Group, Operation, bytes_moved
from llmc.runtime.ranks.grid import Grid

_MEMORY = int(rt.MemoryType.DEVICE_LOCAL | rt.MemoryType.HOST_VISIBLE)
_USAGE = int(rt.BufferUsage.DEFAULT | rt.BufferUsage.MAPPING)
_FLOAT = int(rt.HalElementType.FLOAT_32)
_BYTE = np.dtype(np.uint8)

# The result of a collective, and what waits for it.
_Started = tuple[rt.VmRef, Finish]


class Collectives:
    """Collectives of a rank on arrays of a device, whose memory the host can read and write.

    `failure` is what the one that failed raised, of which IREE makes text.
    """

    def __init__(self, communicator: Communicator, grid: Grid, device: rt.HalDevice) -> None:
        """For arrays on `device`, among the ranks of `grid`."""
        self.failure: BaseException | None = None
        self._communicator = communicator
        self._grid = grid
        self._groups: dict[int, Group] = {}
        self._under_way: dict[int, _Started] = {}
        self._device = device
        self._read = True

    @contextmanager
    def unread(self) -> Iterator[None]:
        """Surrounds calls whose results no rank needs: none is broadcast.

        So the first stage of a pipeline goes on to the next call while the last is at this one.
        """
        self._read = False
        try:
            yield
        finally:
            self._read = True

    def module(self) -> rt.VmModule:
        """The module, to be given to IREE beside the one that calls it."""
        interface = rt.PyModuleInterface("collective", lambda _: self)

        def export(name: str, convention: str, function: Callable[..., Any]) -> None:
            interface.export(name, convention, _keeping_failure(function))

        for start, operands in (
            (Collectives.all_reduce, "ri"),
            (Collectives.all_gather, "ri"),
            (Collectives.reduce_scatter, "ri"),
            (Collectives.shift, "rii"),
        ):
            export(start.__name__, f"0{operands}_r", _ending(start))
            export(f"start_{start.__name__}", f"0{operands}_i", _numbering(start))
        export("finish", "0i_r", Collectives.finish)
        export("finish_after", "0ri_r", Collectives.finish_after)
        export("broadcast", "0rii_r", Collectives.broadcast)
        export("send", "0rii_v", Collectives.send)
        export("receive", "0Iii_r", Collectives.receive)
        return interface.create()

    def all_reduce(self, x: rt.VmRef, axes: int) -> _Started:
        """See the module."""
        view, group = x.deref(rt.HalBufferView), self._group(axes)
        if len(group) == 1:
            return view.ref, _nothing
        array = _mapped(view).view(np.float32)
        self._count("all_reduce", array.nbytes, len(group))
        return view.ref, self._communicator.start_all_reduce(array, group)

    def all_gather(self, x: rt.VmRef, axes: int) -> _Started:
        """See the module."""
        view, group = x.deref(rt.HalBufferView), self._group(axes)
        if len(group) == 1:
            return view.ref, _nothing
        array = _held(view)
        gathered, whole = self._new(view.shape[0] * len(group), view)
        self._count("all_gather", whole.size, len(group))
        return gathered, self._communicator.start_all_gather(array, whole, group)

    def reduce_scatter(self, x: rt.VmRef, axes: int) -> _Started:
        """See the module."""
        view, group = x.deref(rt.HalBufferView), self._group(axes)
        if len(group) == 1:
            return view.ref, _nothing
        array = _held(view)
        self._count("reduce_scatter", array.size, len(group))
        scattered, piece = self._new(view.shape[0] // len(group), view)
        parts = array.view(np.float32), piece.view(np.float32)
        return scattered, self._communicator.start_reduce_scatter(*parts, group)

    def shift(self, x: rt.VmRef, by: int, axes: int) -> _Started:
        """See the module."""
        view, group = x.deref(rt.HalBufferView), self._group(axes)
        here = group.index(self._communicator.rank)
        to, source = (group[(here + offset) % len(group)] for offset in (by, -by))
        if to == self._communicator.rank:
            return view.ref, _nothing
        array = _held(view)
        self._count("shift", array.size, len(group))
        shifted, room = self._new(view.shape[0], view)
        return shifted, self._communicator.start_shift(array, room, to, source)

    def finish(self, number: int) -> rt.VmRef:
        """See the module."""
        result, finish = self._under_way.pop(number)
        finish()
        return result

    def finish_after(self, _: rt.VmRef, number: int) -> rt.VmRef:
        """See the module."""
        return self.finish(number)

    def broadcast(self, x: rt.VmRef, root: int, axes: int) -> rt.VmRef:
        """See the module."""
        view, group = x.deref(rt.HalBufferView), self._group(axes)
        if not self._read:
            return view.ref
        array = _mapped(view)
        self._count("broadcast", array.size, len(group))
        self._communicator.broadcast(array, group[root], group)
        return view.ref

    def send(self, x: rt.VmRef, to: int, axes: int) -> None:
        """See the module."""
        array, group = _held(x.deref(rt.HalBufferView)), self._group(axes)
        self._count("send", array.size, len(group))
        self._communicator.send(array, group[to])

    def receive(self, length: int, source: int, axes: int) -> rt.VmRef:
        """See the module."""
        group = self._group(axes)
        received, array = self._allocate(length * 4, length, _FLOAT)
        self._communicator.receive(array, group[source])
        return received

    def number(self, started: _Started) -> int:
        """The number under which `finish` finds it."""
        number = max(self._under_way, default=-1) + 1
        self._under_way[number] = started
        return number

    def _group(self, axes: int) -> Group:
        if axes not in self._groups:
            self._groups[axes] = self._grid.group(self._communicator.rank, axes)
        return self._groups[axes]

    def _count(self, operation: Operation, size: int, members: int) -> None:
        self._communicator.moved += bytes_moved(operation, size, members)

    def _new(self, length: int, like: rt.HalBufferView) -> tuple[rt.VmRef, np.ndarray]:
        """A new array of so many elements of the type of `like`, and its bytes."""
        size = length * like.byte_length // max(like.shape[0], 1)
        return self._allocate(size, length, like.element_type)

    def _allocate(self, size: int, length: int, element: int) -> tuple[rt.VmRef, np.ndarray]:
        buffer = self._device.allocator.allocate_buffer(_MEMORY, _USAGE, size)
        view = rt.HalBufferView(buffer, [length], element)
        return view.ref, _mapped(view)


def _nothing() -> None:
    """Waits for no other rank."""


def _ending(start: Callable[..., _Started]) -> Callable[..., rt.VmRef]:
    """What calls `start`, and waits for what that begins."""

    def called(collectives: Collectives, *operands: Any) -> rt.VmRef:
        result, finish = start(collectives, *operands)
        finish()
        return result

    return called


def _numbering(start: Callable[..., _Started]) -> Callable[..., int]:
    """What calls `start`, and returns the number of what that begins."""
    return lambda collectives, *operands: collectives.number(start(collectives, *operands))


def _keeping_failure(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` of Collectives, which keeps what it raises."""

    def called(collectives: Collectives, *arguments: Any) -> Any:
        try:
            return function(collectives, *arguments)
        except BaseException as failure:
            collectives.failure = failure
            raise

    return called


def _held(view: rt.HalBufferView) -> np.ndarray:
    """The bytes of `view`, to be read where they lie."""
    return np.frombuffer(view.map(), np.uint8)


def _mapped(view: rt.HalBufferView) -> np.ndarray:
    """The bytes of `view`, to be read and written where they lie."""
    return view.map().asarray((view.byte_length,), _BYTE)
