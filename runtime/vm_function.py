"""Calls of a module's functions, without what IREE's own Python wrapper spends on each."""

from dataclasses import dataclass

import iree.runtime as rt
import numpy as np

_ELEMENTS = {
    np.dtype(np.float32): rt.HalElementType.FLOAT_32,
    np.dtype(np.int64): rt.HalElementType.SINT_64,
}


class VmFunction:
    """A function of a loaded module that takes int64 arrays and integers."""

    def __init__(self, context: rt.VmContext, device: rt.HalDevice, function: rt.VmFunction):
        """`device` is where arguments are put."""
        self._context = context
        self._allocator = device.allocator
        self._device = device
        self._function = function

    def __call__(self, *arguments: np.ndarray | int) -> list["Result"]:
        """Runs the function to its end; returns its results, which stay on the device."""
        inputs, outputs = rt.VmVariantList(len(arguments)), rt.VmVariantList(2)
        for argument in arguments:
            if isinstance(argument, np.ndarray):
                inputs.push_ref(self._upload(argument))
            else:
                inputs.push_int(argument)
        self._context.invoke(self._function, inputs, outputs)
        return [
            Result(outputs.get_as_object(at, rt.HalBufferView), self._device)
            for at in range(outputs.size)
        ]

    def _upload(self, array: np.ndarray) -> rt.HalBufferView:
        return self._allocator.allocate_buffer_copy(
            memory_type=rt.MemoryType.DEVICE_LOCAL,
            allowed_usage=rt.BufferUsage.DEFAULT | rt.BufferUsage.MAPPING,
            device=self._device,
            buffer=array,
            element_type=_ELEMENTS[array.dtype],
        )


@dataclass(frozen=True)
class Result:
    """An array that lies on the device."""

    _view: rt.HalBufferView
    # Must outlive the view, and does: an object lets go of its fields in their order.
    _device: rt.HalDevice

    def read(self, element: type[np.generic]) -> np.ndarray:
        """A copy of the array, whose element type is `element`."""
        return self._view.map().asarray(self._view.shape, np.dtype(element)).copy()
