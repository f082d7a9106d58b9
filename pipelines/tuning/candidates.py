"""The schedules that are worth timing for a kernel."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from torch_mlir.dialects import func

from llmc.pipelines.schedules.schedule import Parameters, PythonSchedule
from llmc.pipelines.schedules.strategies import choose_schedule
from llmc.pipelines.targets.cpu import CPUTarget


def candidates(kind: str, kernel: func.FuncOp, target: CPUTarget) -> list[PythonSchedule]:
    """What the rules choose for `kernel`, and then the same schedule with other parameters.

    These are the values that the parameters' class names, as far as they fit the kernel's results.
    Empty where no rule applies.
    """
    default = choose_schedule(kind, kernel, target)
    if default is None:
        return []
    others = (PythonSchedule(default.function, each) for each in _others(kernel, default))
    return [default, *(schedule for schedule in others if schedule != default)]


def _others(kernel: func.FuncOp, default: PythonSchedule) -> Iterator[Parameters]:
    parameters = default.parameters
    if isinstance(parameters, Parameters):
        shape = list(kernel.type.results[0].shape)
        for values in product(*parameters.worth_trying.values()):
            chosen = dict(zip(parameters.worth_trying, values, strict=True))
            changed = replace(parameters, **chosen)
            if changed.fits(shape):
                yield changed
