"""Which schedule a kernel gets, by its shape and the machine: the first rule that matches."""

from collections.abc import Callable

from torch_mlir.dialects import func

from llmc.pipelines.schedules.schedule import PythonSchedule
from llmc.pipelines.targets.cpu import CPUTarget

Rule = Callable[[func.FuncOp, CPUTarget], PythonSchedule | None]
"""The schedule of a kernel on a machine; None where the rule does not apply to it."""

RULES: dict[str, tuple[Rule, ...]] = {}
"""The rules for each kind of kernel, in the order in which they are tried."""


def choose_schedule(kind: str, kernel: func.FuncOp, target: CPUTarget) -> PythonSchedule | None:
    """The schedule of the first rule that applies; None where none does."""
    chosen = (rule(kernel, target) for rule in RULES.get(kind, ()))
    return next((schedule for schedule in chosen if schedule is not None), None)
