"""What a schedule is: something that writes a transform script, which MLIR runs on a module."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import transform

from llmc.pipelines.option_text import check_options, options_text
from llmc.pipelines.schedules.handles import Handle

ENTRY = "__transform_main"
"""The sequence of a transform script that MLIR's interpreter begins with."""

MOST = 1024
"""The greatest number that a schedule's parameter may be.

Enough to ask memory for all that a core waits for (`STREAM_AHEAD`) by rows of 8 bytes.
"""

_WORKGROUPS = range(2, 2049)
"""How many workgroups are worth trying: fewer leave threads idle, more only cost dispatching."""


@dataclass(frozen=True)
class Parameters:
    """The parameters of a schedule of ours: its fields, numbers being small ones of something.

    None is 0, unless a `Range` of its own says so.
    `worth_trying` has values of some of them, which tuning combines where the whole `fits`.
    """

    worth_trying: ClassVar[Mapping[str, Sequence[int]]] = {}

    def __post_init__(self) -> None:
        check_options(self)
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type is int and not 1 <= value <= MOST:
                raise ValueError(f"{field.name} must be from 1 to {MOST}, not {value}")

    def fits(self, _shape: Sequence[int]) -> bool:
        """Whether they suit a kernel whose first result is of this shape."""
        return True


def share_evenly(panels: int, each: int) -> bool:
    """Whether workgroups of `each` panels are enough, not too many, and all alike."""
    return panels % each == 0 and panels // each in _WORKGROUPS


class Schedule(ABC):
    """Something that a transform script can be had from."""

    @abstractmethod
    def script(self) -> ir.Module:
        """A module with the sequence `@__transform_main`, made in the current context.

        UserError or MLIRError where a user's own code or file is wrong.
        """


@dataclass(frozen=True)
class PythonSchedule(Schedule):
    """`function(payload, parameters)`, or `function(payload)` where it has no parameters.

    The function is given a `Handle` on the payload, a module, and says with verbs what to do to it.
    """

    function: Callable[..., None]
    parameters: object | None = None

    def script(self) -> ir.Module:
        """The script that the function writes."""
        with _place_of(self.function):
            module = ir.Module.create()
            module.operation.attributes["transform.with_named_sequence"] = ir.UnitAttr.get()
            with ir.InsertionPoint(module.body):
                main = transform.NamedSequenceOp(ENTRY, [transform.AnyOpType.get()], [])
            with ir.InsertionPoint(main.body):
                self.emit(Handle(main.bodyTarget))
                # A schedule of someone's own may have ended the script itself.
                if not _has_ended(main.body):
                    transform.YieldOp()
        module.operation.verify()
        return module

    @property
    def text(self) -> str:
        """The schedule as `parse_schedule` reads it."""
        options = "" if self.parameters is None else options_text(self.parameters)
        return f"{self.function.__name__}{options}"

    def emit(self, payload: Handle) -> None:
        """Writes what is done to `payload` at the current insertion point."""
        if self.parameters is None:
            self.function(payload)
        else:
            self.function(payload, self.parameters)


def _has_ended(body: ir.Block) -> bool:
    operations = list(body)
    return bool(operations) and isinstance(operations[-1], transform.YieldOp)


def _place_of(function: Callable[..., None]) -> ir.Location:
    code = inspect.unwrap(function).__code__
    return ir.Location.file(code.co_filename, code.co_firstlineno, 0)
