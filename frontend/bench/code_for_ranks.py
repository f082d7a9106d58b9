"""Compiles functions that ranks call together, for this machine."""

from torch_mlir import ir

from llmc.pipelines.driver.execution import run
from llmc.pipelines.iree import compiled
from llmc.pipelines.passes import LowerCollectives, LowerLlmc, ToIREE
from llmc.pipelines.targets.cpu import CPUTarget

# IREE knows linalg's addition by its loops alone.
_SIMPLIFY = "func.func(linalg-generalize-named-ops),canonicalize,cse"


def code_for_ranks(module: ir.Module) -> bytes:
    """The code of `module`, of llmc operations and collectives. Raises PassError, IREEError."""
    run((LowerLlmc(), _SIMPLIFY, LowerCollectives(), ToIREE()), module)
    code, _ = compiled(module, CPUTarget())
    return code
