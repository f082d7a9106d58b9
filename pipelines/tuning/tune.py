"""Finds the best schedule of one kernel."""

from collections.abc import Callable
from contextlib import suppress
from random import Random

from torch_mlir import ir

from llmc.pipelines.errors import IREEError, PassError
from llmc.pipelines.schedules.schedule import PythonSchedule
from llmc.pipelines.targets.cpu import CPUTarget
from llmc.pipelines.tuning.attention_trial import attention_trial
from llmc.pipelines.tuning.candidates import candidates
from llmc.pipelines.tuning.database import Entry
from llmc.pipelines.tuning.halving import fastest
from llmc.pipelines.tuning.kernel_key import kernel_key
from llmc.pipelines.tuning.layer_trial import layer_trial
from llmc.pipelines.tuning.stopwatch import Timer, stopwatch
from llmc.pipelines.tuning.subject import Subject
from llmc.runtime.hal_device import cpu_device

_FAILURES = (ir.MLIRError, PassError, IREEError)


def tune_kernel(
    subject: Subject,
    target: CPUTarget,
    threads: int,
    watch: Callable[[int, int], bool] = lambda _done, _of: True,
) -> Entry:
    """Compiles and times the candidates of a kernel that has some.

    `watch` is called with how many of how many candidates are compiled; where it answers False no
    more are. A candidate that cannot be compiled is left out, unless it is what the rules choose.
    """
    default, *others = candidates(subject.kind, subject.kernel, target)
    # So that those that time is left for are of all kinds.
    choices = [default, *Random(0).sample(others, len(others))]
    device = cpu_device(threads)
    is_attention = subject.is_attention
    trial = (
        attention_trial(subject, target, device) if is_attention else layer_trial(subject, device)
    )
    timers: dict[PythonSchedule, Timer] = {}
    for number, schedule in enumerate(choices):
        if number and not watch(number, len(choices)):
            break
        with suppress(*_FAILURES if number else ()):
            timers[schedule] = stopwatch(trial, schedule, target, device)
    found = fastest(list(timers.values()))
    tried = list(timers)
    return Entry(
        key=kernel_key(subject.kind, subject.kernel, target),
        schedule=tried[found.number].text,
        default=tried[0].text,
        seconds=found.seconds,
        default_seconds=found.first_seconds,
        threads=threads,
    )
