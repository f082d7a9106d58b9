"""What `--dump-schedule` prints: the transform scripts of the schedules that a pipeline runs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from torch_mlir import ir

from llmc.pipelines.driver.execution import Observer, SinglePass
from llmc.pipelines.passes.apply_schedule import ApplySchedule
from llmc.pipelines.passes.schedule_kernels import ScheduleKernels
from llmc.pipelines.pipeline import Step


@dataclass(frozen=True)
class Script:
    """A transform script, what it is for, and the kernels that were scheduled by it."""

    module: ir.Module
    schedule: str = ""
    kernels: Sequence[str] = ()

    @property
    def heading(self) -> str:
        """A comment that says so, of a line each; empty where the script was named by hand."""
        if not self.schedule:
            return ""
        lines = [self.schedule, *(f"  {kernel}" for kernel in self.kernels)]
        return "".join(f"// {line}\n" for line in lines)


def are_named(steps: Sequence[Step]) -> bool:
    """Whether the schedules of a pipeline are known without a module to choose them for."""
    return not any(isinstance(step, ScheduleKernels) for step in steps)


def named_scripts(steps: Sequence[Step]) -> Iterator[Script]:
    """The scripts of the schedules that a pipeline names. Needs a context and a location.

    UserError or MLIRError where a user's own code or file is wrong.
    """
    for step in steps:
        if isinstance(step, ApplySchedule) and step.loaded is not None:
            yield Script(step.loaded.script())


@dataclass
class ScheduleDump(Observer):
    """Gathers the scripts that run: those that are named, and those chosen for kernels."""

    _named: list[Script] = field(default_factory=list, init=False)
    _chosen: dict[str, tuple[ir.Module, list[str]]] = field(default_factory=dict, init=False)

    def after(self, single: SinglePass, op: ir.Operation) -> None:
        """Notes what ran; kernels that have the same schedule share its script."""
        if isinstance(single.pass_, ApplySchedule):
            self._named += map(Script, single.pass_.scripts)
        elif isinstance(single.pass_, ScheduleKernels):
            for kernel, schedule in single.pass_.chosen:
                if schedule.text not in self._chosen:
                    self._chosen[schedule.text] = schedule.script(), []
                _, kernels = self._chosen[schedule.text]
                kernels.append(kernel)

    def scripts(self) -> Iterator[Script]:
        """What ran, each script once."""
        yield from self._named
        for schedule, (script, kernels) in self._chosen.items():
            yield Script(script, schedule, kernels)
