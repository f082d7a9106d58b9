"""What a module is compiled to for this CPU."""

import iree.compiler
from torch_mlir import ir

from llmc.pipelines.iree import UNVERIFIED
from llmc.pipelines.targets.cpu import CPUTarget


def compile_for_cpu(module: ir.Module) -> bytes:
    """The code of `module`, as IREE makes it where it is not told to optimise."""
    return iree.compiler.compile_str(str(module), extra_args=[*CPUTarget().flags, UNVERIFIED])
