"""The one place where MLIR text crosses from torch-mlir's MLIR to IREE's."""

from pathlib import Path

import iree.compiler as iree
from torch_mlir import ir

from llmc.pipelines.targets.cpu import CPUTarget


class IREEError(Exception):
    """IREE could not compile the module; the text is its diagnostics."""


_OPTIONS = ["--iree-opt-level=O3"]


def compile_module(module: ir.Module, target: CPUTarget, output: Path) -> None:
    """Compiles `module` for `target` into the file `output`. Raises IREEError."""
    text = module.operation.get_asm(enable_debug_info=True)
    try:
        iree.compile_str(text, output_file=str(output), extra_args=[*target.flags, *_OPTIONS])
    except iree.CompilerToolError as error:
        raise IREEError(str(error)) from error
