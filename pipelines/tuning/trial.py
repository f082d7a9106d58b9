"""What is timed of a kernel: a module that runs it many times in a row, and on what."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import iree.runtime as rt
from torch_mlir import ir

from llmc.pipelines.schedules.schedule import PythonSchedule

RUN = "run"

Arguments: TypeAlias = Sequence[rt.HalBufferView | int]


@dataclass(frozen=True)
class Trial:
    """`build(schedule)` makes a module whose `run` dispatches the kernel `dispatches` times.

    One dispatch waits for the other, as in a model. `runs` are what `run` is called with, in turns,
    after all of `before`: names of other functions of the module, and what each is called with.
    `build` raises MLIRError or PassError where the schedule cannot be had for the kernel. A loaded
    module holds so many bytes, `held`.
    """

    build: Callable[[PythonSchedule], ir.Module]
    dispatches: int
    runs: Sequence[Arguments]
    before: Sequence[tuple[str, Arguments]] = ()
    held: int = 0
