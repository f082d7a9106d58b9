"""The one place where MLIR text crosses from torch-mlir's MLIR to IREE's."""

from pathlib import Path

import iree.compiler as iree
from torch_mlir import ir

from llmc.pipelines.errors import IREEError
from llmc.pipelines.targets.cpu import CPUTarget

OPTIONS = ["--iree-opt-level=O3"]


def compile_module(module: ir.Module, target: CPUTarget, output: Path) -> None:
    """Compiles `module` for `target` into the file `output`. Raises IREEError, OSError."""
    text = module.operation.get_asm(enable_debug_info=True)
    try:
        code = iree.compile_str(text, extra_args=[*target.flags, *OPTIONS])
    except iree.CompilerToolError as error:
        raise IREEError(str(error)) from error
    # Not by IREE, to whom a full disk is a failed compilation.
    output.write_bytes(code)
