"""Times a kernel with one schedule, compiled by IREE, by itself."""

import time
from collections.abc import Callable
from itertools import cycle

import iree.runtime as rt
from torch_mlir import ir

from llmc.pipelines.iree import compiled
from llmc.pipelines.targets.cpu import CPUTarget
from llmc.pipelines.tuning.trial import RUN, Trial
from llmc.runtime.vm_function import VmFunction

_SAMPLE_SECONDS = 0.02

Timer = Callable[[], float]
"""Runs a kernel for a while and returns the seconds that a dispatch took."""


def stopwatch(trial: Trial, module: ir.Module, target: CPUTarget, device: rt.HalDevice) -> Timer:
    """Compiles `module`, which `trial` built. Raises IREEError."""
    instance = rt.Config(device=device).vm_instance
    binary, _ = compiled(module, target)
    code = rt.VmModule.copy_buffer(instance, binary)
    context = rt.VmContext(instance, modules=[rt.create_hal_module(instance, device), code])
    for name, arguments in trial.before:
        VmFunction(context, device, code.lookup_function(name))(*arguments)
    function = VmFunction(context, device, code.lookup_function(RUN))
    turns = cycle(trial.runs)

    def run() -> float:
        count, begin = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - begin) < _SAMPLE_SECONDS or not count:
            function(*next(turns))
            count += trial.dispatches
        return elapsed / count

    run()
    return run
