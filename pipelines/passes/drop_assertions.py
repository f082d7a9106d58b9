"""`drop-assertions`: removes the importer's run-time checks."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from llmc.pipelines.passes.base import Pass
from llmc.pipelines.walks import find


@dataclass(frozen=True)
class DropAssertions(Pass):
    """Removes `cf.assert`: the runtime checks token ids and lengths before a call.

    torch-mlir asserts inside the embedding's loop that each index is in range, which would keep
    that loop from being vectorised.
    """

    name: ClassVar[str] = "drop-assertions"

    def apply(self, module: ir.Module) -> None:
        """Erases every `cf.assert`."""
        for op in find(module.operation, "cf.assert"):
            op.erase()
