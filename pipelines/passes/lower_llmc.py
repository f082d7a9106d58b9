"""`lower-llmc`: replaces llmc operations by what they mean in linalg."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import tensor

from llmc.dialects import OPERATIONS
from llmc.pipelines.passes.base import Pass, walk


@dataclass(frozen=True)
class LowerLlmc(Pass):
    """Lowers every llmc operation that has a lowering, as its class defines it."""

    name: ClassVar[str] = "lower-llmc"

    def apply(self, module: ir.Module) -> None:
        """Rewrites operation by operation, in order."""
        for op in [op for op in walk(module.operation) if op.name in OPERATIONS]:
            view = op.opview
            if not hasattr(view, "lower"):
                continue
            with ir.InsertionPoint(op), op.location:
                meaning = view.lower()
                if meaning.type != op.results[0].type:  # in what is dynamic
                    meaning = tensor.cast(op.results[0].type, meaning)
                op.results[0].replace_all_uses_with(meaning)
            op.erase()
