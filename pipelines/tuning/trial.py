"""What is timed of a kernel: a module that runs it many times in a row, and on what."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import iree.runtime as rt
from torch_mlir import ir

from llmc.dialects.index_notation import insert, slice_of
from llmc.pipelines.schedules.schedule import PythonSchedule

RUN = "run"

Name = TypeVar("Name")
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


def depend(known: dict[Name, ir.Value], result: ir.Value) -> None:
    """Has what reads `known` wait for `result`.

    Its first numbers are put into the first of the tensors that has such numbers.
    """
    for number, value in known.items():
        if value.type.element_type == result.type.element_type:
            count = min(value.type.shape[-1], result.type.shape[-1])
            some = slice_of(result, *_first(result, count), [count])
            known[number] = insert(some, value, *_first(value, count))
            return


def _first(value: ir.Value, count: int) -> tuple[list[int], list[int]]:
    rank = value.type.rank
    return [0] * rank, [*[1] * (rank - 1), count]
