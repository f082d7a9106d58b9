"""What a step of a program is."""

from abc import ABC, abstractmethod
from typing import ClassVar

from tests.programs.scope import Scope


class Step(ABC):
    """A part of a program. A local one computes each token's row from that row alone."""

    local: ClassVar[bool] = True

    @abstractmethod
    def apply(self, scope: Scope) -> None:
        """Builds its operations and sets `scope.hidden`, which keeps its type."""
