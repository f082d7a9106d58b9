"""Calls of a module's functions, without what IREE's own Python wrapper spends on each."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import iree.runtime as rt
import numpy as np

from llmc.runtime.wakeup import without_preemption

Integers = Literal["i32", "i64"]

_INTEGERS: dict[Integers, tuple[Literal["i", "q"], rt.HalElementType]] = {
    "i32": ("i", rt.HalElementType.SINT_32),
    "i64": ("q", rt.HalElementType.SINT_64),
}


class VmFunction:
    """A function of a loaded module that takes arrays on the device and integers."""

    def __init__(
        self,
        context: rt.VmContext,
        device: rt.HalDevice,
        function: rt.VmFunction,
        integers: Integers = "i64",
    ) -> None:
        """`device` is where arguments are put; the function's integers are of type `integers`."""
        self._context = context
        self._integers = integers
        self._device = device
        self._allocator = device.allocator
        self._function = function

    def upload(self, integers: Sequence[int], *shape: int) -> rt.HalBufferView:
        """An array of integers of `shape` as an argument, which may be used many times."""
        code, element = _INTEGERS[self._integers]
        held = memoryview(array(code, integers)).cast("B").cast(code, shape)
        return self._allocator.allocate_buffer_copy(_MEMORY, _USAGE, self._device, held, element)

    def upload_floats(self, floats: Sequence[float], *shape: int) -> rt.HalBufferView:
        """An array of f32 of `shape` as an argument."""
        held = memoryview(array("f", floats)).cast("B").cast("f", shape)
        element = rt.HalElementType.FLOAT_32
        return self._allocator.allocate_buffer_copy(_MEMORY, _USAGE, self._device, held, element)

    def __call__(self, *arguments: rt.HalBufferView | int) -> "Results":
        """Runs the function to its end."""
        inputs, outputs = rt.VmVariantList(len(arguments)), rt.VmVariantList(2)
        for argument in arguments:
            if isinstance(argument, int):
                inputs.push_int(argument)
            else:
                inputs.push_ref(argument)
        with without_preemption():
            self._context.invoke(self._function, inputs, outputs)
        return Results(outputs, self._device, self._integers)


_MEMORY = int(rt.MemoryType.DEVICE_LOCAL)
_USAGE = int(rt.BufferUsage.DEFAULT | rt.BufferUsage.MAPPING)
_STAGING_MEMORY = int(rt.MemoryType.HOST_LOCAL | rt.MemoryType.DEVICE_VISIBLE)
_STAGING_USAGE = int(rt.BufferUsage.TRANSFER_TARGET | rt.BufferUsage.MAPPING_SCOPED)


@dataclass(frozen=True)
class Results:
    """What a call returned: arrays that lie on the device."""

    _values: rt.VmVariantList
    # Must outlive the arrays, and does: an object lets go of its fields in their order.
    _device: rt.HalDevice
    _integers: Integers

    def view(self, number: int) -> rt.HalBufferView:
        """The array at place `number`, as an argument of another call."""
        return self._values.get_as_object(number, rt.HalBufferView)

    def read(self, number: int, element: type[np.generic]) -> np.ndarray:
        """A copy of the array at place `number`, whose element type is `element`."""
        return np.frombuffer(self._bytes(number), element).reshape(self.view(number).shape).copy()

    def integers(self, number: int) -> list[int]:
        """The integers of the array at place `number`, in order.

        Without numpy, whose functions take longer to call than a few numbers to copy.
        """
        return self._bytes(number).cast(_INTEGERS[self._integers][0]).tolist()

    def floats(self, number: int) -> list[float]:
        """The f32 of the array at place `number`, in order."""
        return list(self._bytes(number).cast("f"))

    def _bytes(self, number: int) -> memoryview:
        view = self.view(number)
        buffer = view.get_buffer()
        if not buffer.allowed_usage() & int(rt.BufferUsage.MAPPING_SCOPED):
            return memoryview(self._staged(buffer).map()).cast("B")
        return memoryview(view.map()).cast("B")

    def _staged(self, source: rt.HalBuffer) -> rt.HalBuffer:
        """A copy of `source` that the host can read."""
        size = source.byte_length()
        staging = self._device.allocator.allocate_buffer(_STAGING_MEMORY, _STAGING_USAGE, size)
        semaphore = self._device.create_semaphore(0)
        before, after = (rt.HalFence.create_at(semaphore, value) for value in (0, 1))
        self._device.queue_copy(source, staging, before, after)
        after.wait()
        return staging
