"""Functions on a Vulkan device, for tests: numpy arrays in and out."""

from collections.abc import Callable

import iree.runtime as rt
import numpy as np

from llmc.runtime.vm_function import VmFunction


def load_function(
    binary: bytes, name: str, results: list[type[np.generic]]
) -> Callable[..., list[np.ndarray]]:
    """A function of a module that takes arrays and integers, and returns arrays of such elements.

    IREE 3.13 cannot itself copy what Vulkan holds to numpy. The device goes with the function, for
    an open one of lavapipe's keeps a core busy.
    """
    config = rt.Config(device=rt.get_driver("vulkan").create_default_device())
    program = rt.VmModule.copy_buffer(config.vm_instance, binary)
    modules = [rt.create_hal_module(config.vm_instance, config.device), program]
    context = rt.VmContext(config.vm_instance, modules=modules)
    entry = program.lookup_function(name)
    function = VmFunction(context, config.device, entry, "i32")

    def call(*arguments: np.ndarray | int) -> list[np.ndarray]:
        on_device = [
            rt.asdevicearray(config.device, each)._buffer_view
            if isinstance(each, np.ndarray)
            else each
            for each in arguments
        ]
        found = function(*on_device)
        return [found.read(number, element) for number, element in enumerate(results)]

    return call
