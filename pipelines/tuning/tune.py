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

_MOST_HELD = 1 << 30
"""Bytes that the candidates of a kernel hold together, about: no more are tried then."""

_FAILURES = (ir.MLIRError, PassError, IREEError)


def tune_kernel(
    subject: Subject,
    target: CPUTarget,
    threads: int,
    watch: Callable[[int, int], bool] = lambda _done, _of: True,
    known: Entry | None = None,
) -> Entry | None:
    """Compiles and times the candidates of a kernel that has some.

    `watch` is called with how many of how many candidates are compiled; where it answers False no
    more are. A candidate that cannot be compiled is left out, unless it is what the rules choose,
    and so is one that makes the same of the kernel as another. `known` is tried before others. None
    where nothing but the default was.
    """
    default, *others = candidates(subject.kind, subject.kernel, target)
    # So that those that time is left for are of all kinds.
    choices = [default, *Random(0).sample(others, len(others))]
    choices.sort(key=lambda each: (each != default, known is None or each.text != known.schedule))
    device = cpu_device(threads)
    op = subject.attention
    trial = layer_trial(subject, device) if op is None else attention_trial(op, target, device)
    timers: dict[PythonSchedule, Timer] = {}
    built: set[str] = set()
    for number, schedule in enumerate(choices):
        if (number and not watch(number, len(choices))) or len(timers) * trial.held > _MOST_HELD:
            break
        with suppress(*_FAILURES if number else ()):
            module = trial.build(schedule)
            if (text := module.operation.get_asm()) not in built:
                built.add(text)
                timers[schedule] = stopwatch(trial, module, target, device)
    if len(timers) == 1:
        return None
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
