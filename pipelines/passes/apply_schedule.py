"""`apply-schedule`: runs a schedule on the kernels of a module."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

from torch_mlir import ir

from llmc.pipelines.passes.base import Pass
from llmc.pipelines.schedules.interpreter import apply_script
from llmc.pipelines.schedules.registry import parse_schedule
from llmc.pipelines.schedules.schedule import Schedule
from llmc.pipelines.schedules.user_schedule import load_schedule


@dataclass(frozen=True)
class ApplySchedule(Pass):
    """Does to the module what a schedule says.

    `schedule` names one of ours, as in `apply-schedule{schedule="matvec{rows=8}"}`; it runs on the
    functions that `outline-kernels` marks as kernels of its kind. `file` is one of a user's:
    `mine.py:FUNCTION` or a transform library `mine.mlir`. May change numerics: a schedule may
    change the order of a sum.
    """

    name: ClassVar[str] = "apply-schedule"
    idempotent: ClassVar[bool] = False
    schedule: str = ""
    file: str = ""
    scripts: list[ir.Module] = field(default_factory=list, init=False, compare=False, repr=False)
    """The script that ran last, if any did."""

    def __post_init__(self) -> None:
        if self.schedule and self.file:
            raise ValueError("give schedule or file, not both")
        _ = self.loaded

    @cached_property
    def loaded(self) -> Schedule | None:
        """The schedule; None where none is given. Raises UserError."""
        if self.schedule:
            return parse_schedule(self.schedule)
        return load_schedule(self.file) if self.file else None

    def apply(self, module: ir.Module) -> None:
        """Writes the script and runs it."""
        if self.loaded is not None:
            script = self.loaded.script()
            self.scripts[:] = [script]
            apply_script(script, module)
