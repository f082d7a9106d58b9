"""`refuse-unsupported`: refuses what torch-mlir does not lower, or not so that IREE is right."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from llmc.pipelines.passes.base import Pass
from llmc.pipelines.walks import walk
from llmc.runtime.errors import UserError


@dataclass(frozen=True)
class RefuseUnsupported(Pass):
    """Raises UserError for an operation of PyTorch that is left, and for any of `tm_tensor`.

    Those, sorts and scatters, overwrite what they are given. Where it depends on no data, as the
    places that a sort permutes do, IREE 3.13 computes it once for all layers, and yet lets each
    overwrite it: from the second layer on the result is wrong.
    """

    name: ClassVar[str] = "refuse-unsupported"

    def apply(self, module: ir.Module) -> None:
        """UserError for the first one that is found."""
        for op in walk(module.operation):
            if op.name.startswith(("torch.aten.", "torch.prims.", "tm_tensor.")):
                name = op.name.removeprefix("torch.")
                raise UserError(f"the model needs {name}: llmc cannot compile it")
