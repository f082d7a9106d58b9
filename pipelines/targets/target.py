"""What every target says of itself, whatever kind of device it is."""

from abc import ABC, abstractmethod
from typing import ClassVar, Literal

from torch_mlir import ir

from llmc.runtime.manifest import TargetFacts

Kind = Literal["cpu", "vulkan", "cuda"]


class Target(ABC):
    """A device to compile for."""

    kind: ClassVar[Kind]
    integers: ClassVar[Literal["i32", "i64"]] = "i64"
    """The type in which a module's functions take and return integers."""

    @property
    @abstractmethod
    def flags(self) -> list[str]:
        """What iree-compile needs to be told."""

    @property
    @abstractmethod
    def facts(self) -> TargetFacts:
        """What the manifest says, so that no other device runs the code."""

    def mark(self, module: ir.Module) -> None:  # noqa: B027 (flags say all of most targets)
        """Writes into `module` what flags cannot say of the device."""
