"""The one place where MLIR text crosses from torch-mlir's MLIR to IREE's."""

from pathlib import Path

import iree.compiler as iree
from iree.compiler import ir as iree_ir
from torch_mlir import ir

from llmc.pipelines.dispatches import count_dispatches, inline_layers, separate_arguments
from llmc.pipelines.errors import IREEError
from llmc.pipelines.targets.cpu import CPUTarget
from llmc.runtime import abi

OPTIONS = ["--iree-opt-level=O3"]


def compile_module(module: ir.Module, target: CPUTarget, output: Path) -> dict[str, int]:
    """Compiles `module` for `target` into the file `output`. Raises IREEError, OSError.

    Returns how many kernels a call of each public function dispatches.
    """
    flow = form_dispatches(module, target)
    code = _compile(_text(flow.operation), target, "--compile-from=flow")
    # Not by IREE, to whom a full disk is a failed compilation.
    output.write_bytes(code)
    return count_dispatches(flow)


def form_dispatches(module: ir.Module, target: CPUTarget) -> iree_ir.Module:
    """`module` in IREE's flow dialect, its kernels formed and each kept once. Raises IREEError.

    The layers of `decode` are inlined only now that their kernels are shared, because IREE submits
    the work of every function by itself, at tens of microseconds a call. The other functions work
    on many rows at a time, where that is little.
    """
    text = _compile(_text(module.operation), target, "--compile-to=flow")
    flow = iree_ir.Module.parse(text, iree_ir.Context())
    inline_layers(flow, abi.DECODE)
    separate_arguments(flow)
    return flow


def _compile(text: str, target: CPUTarget, *phases: str) -> bytes:
    try:
        return iree.compile_str(text, extra_args=[*target.flags, *OPTIONS, *phases])
    except iree.CompilerToolError as error:
        raise IREEError(str(error)) from error


def _text(module: ir.Operation | iree_ir.Operation) -> str:
    return module.get_asm(enable_debug_info=True)
