"""`schedule-kernels`: runs on every kernel the schedule that suits it and the target."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import func

from llmc.pipelines.errors import fail
from llmc.pipelines.kernels.attention_cuts import (
    DECODE_ATTENTION,
    PROMPT_ATTENTION,
    attribute_of,
    kernel_of_attention,
)
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.alone import alone, copied_alone
from llmc.pipelines.rewriting.functions import functions
from llmc.pipelines.rewriting.kernel_functions import is_distributed, kind_of
from llmc.pipelines.schedules.interpreter import apply_script
from llmc.pipelines.schedules.registry import parse_schedule
from llmc.pipelines.schedules.schedule import PythonSchedule
from llmc.pipelines.schedules.strategies import choose_schedule
from llmc.pipelines.targets.cpu import CPUTarget
from llmc.pipelines.targets.parse import parse_cpu
from llmc.pipelines.tuning.database import Database
from llmc.pipelines.tuning.lookup import tuned_schedule
from llmc.pipelines.walks import find, walk
from llmc.runtime.errors import UserError

TUNED = "llmc.tuned"
"""The attribute of a kernel, or of an operation, whose schedule tuning found."""

_GRIDS = (
    "transform.structured.tile_using_forall",
    "llmc_transform.one_workgroup",
    "llmc_transform.workgroup_for_each_row",
)
"""What makes a grid of workgroups in a script, beside what says `use_forall`."""


@dataclass(frozen=True)
class ScheduleKernels(Pass):
    """Does to each kernel what the schedule of its kind says, with parameters for its shape.

    `schedule` replaces those that it names, as in `quantized_matvec{panels=4}`, for the kernels of
    its kind. `tuned` is a file of `llmc tune`, whose entries come before our own choice. A kernel
    without a schedule is left alone, and one that is distributed over workgroups already. On
    attention, which `call-kernels` has kernels for, a schedule writes how these cut up their work,
    where that is not written yet. May change numerics: a schedule may change the order of a sum.
    """

    name: ClassVar[str] = "schedule-kernels"
    idempotent: ClassVar[bool] = False
    target: str = "cpu"
    schedule: str = ""
    tuned: str = ""
    chosen: list[tuple[str, PythonSchedule]] = field(
        default_factory=list, init=False, compare=False, repr=False
    )
    """What the last run scheduled, `@` before the names of kernels, and what each of them got."""

    def __post_init__(self) -> None:
        _ = self.given, self.database
        if self.tuned and not Path(self.tuned).exists():
            raise UserError(f"there is no tuning database {self.tuned}: llmc tune makes one")

    @cached_property
    def given(self) -> PythonSchedule | None:
        """The schedule that is named, where one is. Raises UserError."""
        return parse_schedule(self.schedule) if self.schedule else None

    @cached_property
    def database(self) -> Database:
        """What tuning found, where a file is named. Raises UserError."""
        return Database.read(Path(self.tuned)) if self.tuned else Database()

    def apply(self, module: ir.Module) -> None:
        """Writes a script for each kernel and runs it."""
        target = parse_cpu(self.target)
        self.chosen.clear()
        for function in functions(module):
            kind = kind_of(function)
            if kind is None or is_distributed(function):
                continue
            schedule = self._schedule(kind, function, target)
            if schedule is not None:
                self.chosen.append((f"@{function.name.value}", schedule))
                kernel = _run(schedule, function)
                if self._is_named(kind):
                    _require_grid(schedule, kernel)
        for op in find(module.operation, *PROMPT_ATTENTION, *DECODE_ATTENTION):
            self._cut(op, target)

    def _cut(self, op: ir.Operation, target: CPUTarget) -> None:
        """Writes on `op`, a kind of attention, what its schedule says."""
        kind = kernel_of_attention(op)
        name = attribute_of(kind)
        if name in op.attributes:
            return
        module = alone(op)
        (kernel,) = functions(module)
        schedule = self._schedule(kind, kernel, target)
        if schedule is not None:
            self.chosen.append((op.name, schedule))
            apply_script(schedule.script(), module)
            (copy,) = find(module.operation, op.name)
            op.attributes[name] = copy.attributes[name]
            if TUNED in kernel.attributes:
                op.attributes[TUNED] = kernel.attributes[TUNED]

    def _schedule(self, kind: str, kernel: func.FuncOp, target: CPUTarget) -> PythonSchedule | None:
        tuned = tuned_schedule(self.database, kind, kernel, target)
        chosen = tuned or choose_schedule(kind, kernel, target)
        if self._is_named(kind):
            return parse_schedule(self.schedule, chosen)
        if tuned is not None:
            kernel.attributes[TUNED] = ir.UnitAttr.get()
        return chosen

    def _is_named(self, kind: str) -> bool:
        """Whether the schedule that is named is for kernels of this kind."""
        return self.given is not None and self.given.function.__name__ == kind


def _run(schedule: PythonSchedule, kernel: func.FuncOp) -> func.FuncOp:
    try:
        return run_alone(schedule, kernel)
    except ir.MLIRError:  # of which a diagnostic told, with its place in the schedule
        fail(kernel, f"schedule '{schedule.text}' is not for such a kernel")


def run_alone(schedule: PythonSchedule, kernel: func.FuncOp) -> func.FuncOp:
    """Runs a script on one kernel, since others of its kind may have another; what it becomes.

    MLIRError where it fails.
    """
    module = copied_alone(kernel)
    apply_script(schedule.script(), module)
    (scheduled,) = functions(module)
    scheduled.move_before(kernel)
    kernel.operation.erase()
    return scheduled


def _require_grid(schedule: PythonSchedule, kernel: func.FuncOp) -> None:
    """PassError where the script makes a grid of workgroups, and there is none: it had but one."""
    ops = walk(schedule.script().operation)
    makes_one = any("use_forall" in op.attributes or op.name in _GRIDS for op in ops)
    if makes_one and not is_distributed(kernel):
        fail(kernel, f"schedule '{schedule.text}' leaves all to one workgroup: give it less")
