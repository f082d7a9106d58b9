"""Tells of schedules that found nothing to do, which would otherwise go unnoticed."""

import sys
from dataclasses import dataclass, field

from torch_mlir import ir

from llmc.pipelines.driver.execution import Observer, SinglePass
from llmc.pipelines.passes.apply_schedule import ApplySchedule


@dataclass
class UnmatchedSchedules(Observer):
    """Warns, on standard error, of a schedule that left the module as it was."""

    _before: str = field(default="", init=False)

    def before(self, single: SinglePass, op: ir.Operation) -> None:
        """Notes the module."""
        if isinstance(single.pass_, ApplySchedule):
            self._before = str(op)

    def after(self, single: SinglePass, op: ir.Operation) -> None:
        """Compares it."""
        if isinstance(single.pass_, ApplySchedule) and str(op) == self._before:
            print(
                f"warning: {single.text} changed nothing: ours act on functions with the attribute"
                " llmc.kernel, which outline-kernels gives them",
                file=sys.stderr,
            )
