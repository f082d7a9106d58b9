"""What a pass is: a small dataclass.

Its `name` is what a pipeline says, its fields are the pipeline's options, `apply` does it.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from llmc.pipelines.option_text import check_options


@dataclass(frozen=True)
class Pass(ABC):
    """A transformation of a module, written in Python.

    `idempotent` claims that a second run changes nothing; a test holds it to that.
    """

    name: ClassVar[str]
    idempotent: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_options(self)

    @abstractmethod
    def apply(self, module: ir.Module) -> None:
        """Transforms `module` in place. Its context is current, with an unknown location."""
