"""`lower-llmc`: replaces llmc operations by what they mean in linalg."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import tensor

from llmc.dialects import OPERATIONS
from llmc.pipelines.passes.base import Pass, walk
from llmc.pipelines.passes.call_kernels import KERNELS


@dataclass(frozen=True)
class LowerLlmc(Pass):
    """Lowers every llmc operation that has a lowering, as its class defines it.

    `keep_kernels` leaves those that `call-kernels` replaces.
    """

    name: ClassVar[str] = "lower-llmc"
    keep_kernels: bool = False

    def apply(self, module: ir.Module) -> None:
        """Rewrites operation by operation, in order."""
        for op in [op for op in walk(module.operation) if op.name in OPERATIONS]:
            view = op.opview
            if not hasattr(view, "lower") or (self.keep_kernels and op.name in KERNELS):
                continue
            with ir.InsertionPoint(op), op.location:
                meaning = view.lower()
                if meaning.type != op.results[0].type:  # in what is dynamic
                    meaning = tensor.cast(op.results[0].type, meaning)
                op.results[0].replace_all_uses_with(meaning)
            op.erase()
