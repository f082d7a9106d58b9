"""Tells of schedules that found nothing to do, which would otherwise go unnoticed."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

from torch_mlir import ir

from llmc.pipelines.driver.execution import Observer, SinglePass
from llmc.pipelines.kernels.marks import KIND
from llmc.pipelines.passes.apply_schedule import ApplySchedule
from llmc.pipelines.passes.schedule_kernels import ScheduleKernels
from llmc.pipelines.walks import walk


@dataclass
class UnmatchedSchedules(Observer):
    """Warns, on standard error, of a schedule that finds no kernel or leaves all as they were.

    Of one that `schedule-kernels` was given only at the end, for it is for all parts of a file.
    """

    _kinds: set[str] = field(default_factory=set, init=False)
    _before: bytes = field(default=b"", init=False)
    _is_used: dict[str, bool] = field(default_factory=dict, init=False)

    def before(self, single: SinglePass, op: ir.Operation) -> None:
        """Notes the module, and the kinds of kernels in it."""
        if isinstance(single.pass_, ApplySchedule):
            self._before, self._kinds = op.get_asm(binary=True), set(_kinds(op))

    def after(self, single: SinglePass, op: ir.Operation) -> None:
        """Says what was not found, or that nothing was done."""
        if isinstance(single.pass_, ScheduleKernels):
            self._note_use(single.pass_)
        elif isinstance(single.pass_, ApplySchedule) and single.pass_.loaded is not None:
            self._warn_of_unmatched(single.pass_, op)

    def warn_of_unused(self) -> None:
        """Says which schedules `schedule-kernels` was given in vain."""
        for schedule, is_used in self._is_used.items():
            if not is_used:
                _warn(f"schedule '{schedule}' was not used: its kernels are not there, or have one")

    def _note_use(self, pass_: ScheduleKernels) -> None:
        if pass_.given:
            function = pass_.given.function
            is_used = any(schedule.function is function for _, schedule in pass_.chosen)
            self._is_used[pass_.schedule] = is_used or self._is_used.get(pass_.schedule, False)

    def _warn_of_unmatched(self, pass_: ApplySchedule, op: ir.Operation) -> None:
        name = pass_.schedule or pass_.file
        wanted = sorted(
            {kind for script in pass_.scripts for kind in _matched_kinds(script.operation)}
        )
        if wanted and not self._kinds.intersection(wanted):
            kinds = " or ".join(f'{KIND} = "{kind}"' for kind in wanted)
            _warn(
                f"schedule '{name}' found no kernel: it acts on functions with {kinds}, which"
                " a pass of the name --outline-... makes"
            )
        elif op.get_asm(binary=True) == self._before:
            _warn(f"schedule '{name}' changed nothing")


def _kinds(root: ir.Operation) -> Iterator[str]:
    for op in walk(root):
        if op.name == "func.func" and KIND in op.attributes:
            yield str(op.attributes[KIND]).strip('"')


def _matched_kinds(script: ir.Operation) -> Iterator[str]:
    """The kinds of kernels that a transform script looks for."""
    for op in walk(script):
        if op.name == "transform.structured.match" and "op_attrs" in op.attributes:
            wanted = ir.DictAttr(op.attributes["op_attrs"])
            if KIND in wanted:
                yield str(wanted[KIND]).strip('"')


def _warn(message: str) -> None:
    print(f"warning: {message}", file=sys.stderr)
