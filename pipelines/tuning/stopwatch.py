"""Times a kernel with one schedule, compiled by IREE, by itself."""

import tempfile
import time
from collections.abc import Callable
from itertools import cycle, product
from pathlib import Path

import iree.runtime as rt

from llmc.pipelines.iree import compile_module
from llmc.pipelines.schedules.schedule import PythonSchedule
from llmc.pipelines.targets.cpu import CPUTarget
from llmc.pipelines.tuning.subject import Subject
from llmc.pipelines.tuning.trial import RUN, layers_at_once, trial
from llmc.runtime.vm_function import VmFunction

_SAMPLE_SECONDS = 0.02

Timer = Callable[[], float]
"""Runs a kernel for a while and returns the seconds that a dispatch took."""


def stopwatch(
    subject: Subject,
    schedule: PythonSchedule,
    target: CPUTarget,
    device: rt.HalDevice,
    operands: list[list[rt.HalBufferView]],
) -> Timer:
    """Compiles the kernel with `schedule`; the timer runs it on `operands` and layers in turn.

    Raises MLIRError or PassError where the schedule fails, IREEError where IREE does.
    """
    instance = rt.Config(device=device).vm_instance
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "trial.vmfb"
        compile_module(trial(subject, schedule), target, path)
        code = rt.VmModule.copy_buffer(instance, path.read_bytes())
    context = rt.VmContext(instance, modules=[rt.create_hal_module(instance, device), code])
    function = VmFunction(context, device, code.lookup_function(RUN))
    dispatches = layers_at_once(subject)
    firsts = range(0, subject.layers - dispatches + 1, dispatches)
    calls = cycle(product(operands, firsts))

    def run() -> float:
        count, begin = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - begin) < _SAMPLE_SECONDS or not count:
            tensors, first = next(calls)
            function(*tensors, first)
            count += dispatches
        return elapsed / count

    run()
    return run
