"""Calls of a module's functions, without what IREE's own Python wrapper spends on each."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import iree.runtime as rt
import numpy as np

from llmc.runtime.wakeup import without_preemption


class VmFunction:
    """A function of a loaded module that takes arrays on the device and integers."""

    def __init__(self, context: rt.VmContext, device: rt.HalDevice, function: rt.VmFunction):
        """`device` is where arguments are put."""
        self._context = context
        self._device = device
        self._allocator = device.allocator
        self._function = function

    def upload(self, integers: Sequence[int], *shape: int) -> rt.HalBufferView:
        """An int64 array of `shape` as an argument, which may be used many times."""
        held = memoryview(array("q", integers)).cast("B").cast("q", shape)
        return self._allocator.allocate_buffer_copy(
            _MEMORY, _USAGE, self._device, held, rt.HalElementType.SINT_64
        )

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
        return Results(outputs, self._device)


def numbers(view: rt.HalBufferView, element: Literal["q", "f"]) -> list:
    """The numbers of an array, in order; `element` is their type in the words of module struct.

    Without numpy, whose functions take longer to call than a few numbers to copy.
    """
    return memoryview(view.map()).cast("B").cast(element).tolist()


_MEMORY = int(rt.MemoryType.DEVICE_LOCAL)
_USAGE = int(rt.BufferUsage.DEFAULT | rt.BufferUsage.MAPPING)


@dataclass(frozen=True)
class Results:
    """What a call returned: arrays that lie on the device."""

    _values: rt.VmVariantList
    # Must outlive the arrays, and does: an object lets go of its fields in their order.
    _device: rt.HalDevice

    def view(self, number: int) -> rt.HalBufferView:
        """The array at place `number`, as an argument of another call."""
        return self._values.get_as_object(number, rt.HalBufferView)

    def read(self, number: int, element: type[np.generic]) -> np.ndarray:
        """A copy of the array at place `number`, whose element type is `element`."""
        view = self.view(number)
        return np.frombuffer(view.map(), element).reshape(view.shape).copy()
