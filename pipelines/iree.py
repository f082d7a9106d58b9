"""The one place where MLIR text crosses from torch-mlir's MLIR to IREE's."""

import io
import os
import re
import tempfile
from contextlib import AbstractContextManager, nullcontext, redirect_stderr
from pathlib import Path

import iree.compiler as iree
from iree.compiler import ir as iree_ir
from torch_mlir import ir

from llmc.pipelines.dispatches import count_dispatches, inline, separate_arguments
from llmc.pipelines.errors import IREEError
from llmc.pipelines.kernel_bodies import Bodies, put_back, set_aside
from llmc.pipelines.passes.tile_prefill import TILE
from llmc.pipelines.replay import record_once
from llmc.pipelines.rewriting.functions import functions
from llmc.pipelines.rewriting.layers import is_layer
from llmc.pipelines.schedules.gpu_dispatches import schedule_dispatches
from llmc.pipelines.targets.gpu import GPUTarget
from llmc.pipelines.targets.target import Target
from llmc.runtime import abi
from llmc.runtime.errors import UserError

# IREE looks at its input; to look at it again after each of its passes takes a third of the time.
UNVERIFIED = "--verify=false"
OPTIONS = ["--iree-opt-level=O3", UNVERIFIED]

_NO_ROOM = re.compile("failed to generate temporary file|No space left on device")
# IREE 3.13 may fuse what it then cannot share out among workgroups, as an elementwise operation
# that a softmax reads and others too.
_BADLY_FUSED = "failed on workgroup distribution verification"
_FUSE_LESS = "--iree-dispatch-creation-enable-aggressive-fusion=false"
# With so many kernels IREE takes less time to start once more than to pass by what they do.
_MANY = 4


def compile_module(module: ir.Module, target: Target, output: Path) -> dict[str, int]:
    """Compiles `module` for `target` into the file `output`. Raises OSError, and as `compiled`.

    Returns how many kernels a call of each public function dispatches.
    """
    code, dispatches = compiled(module, target)
    # Not by IREE, to whom a full disk is a failed compilation.
    output.write_bytes(code)
    return dispatches


def compiled(module: ir.Module, target: Target) -> tuple[bytes, dict[str, int]]:
    """The code of `module` for `target`, and what `compile_module` returns.

    Raises IREEError, and UserError where IREE has no room for temporary files.
    """
    try:
        return _code(*form_dispatches(module, target), target)
    except IREEError as error:
        if _BADLY_FUSED not in str(error):
            raise
    return _code(*form_dispatches(module, target, _FUSE_LESS), target)


def _code(flow: iree_ir.Module, bodies: Bodies, target: Target) -> tuple[bytes, dict[str, int]]:
    """As `compiled`, of what `form_dispatches` gives."""
    dispatches = count_dispatches(flow)
    if isinstance(target, GPUTarget):
        commands = record_commands(flow, target)
        return _compile(_text(commands.operation), target, "--compile-from=hal"), dispatches
    phase, module = "flow", flow
    if len(bodies) >= _MANY:
        phase = "stream"
        text = _compile(_text(flow.operation), target, "--compile-from=flow", "--compile-to=stream")
        module = _parse(text, flow.context)
    put_back(module, bodies)
    return _compile(_text(module.operation), target, f"--compile-from={phase}"), dispatches


def form_dispatches(
    module: ir.Module, target: Target, *options: str
) -> tuple[iree_ir.Module, Bodies]:
    """`module` in IREE's flow dialect, its kernels formed and each kept once. Raises IREEError.

    `options` are more of iree-compile's. On a CPU what our kernels do is set aside. Layers are
    inlined only now that their kernels are shared, because IREE submits the work of every function
    by itself, at tens of microseconds a call; and on CUDA the host waits for all that was submitted
    whenever it allocates.
    """
    target.mark(module)
    context, text = iree_ir.Context(), _text(module.operation)
    bodies, prompts = Bodies(), TILE
    if not isinstance(target, GPUTarget):
        given, prompts = _parse(text, context), abi.PREFILL
        bodies = set_aside(given)
        text = _text(given.operation)
    flow = _parse(_compile(text, target, "--compile-to=flow", *options), context)
    inline(flow, _layers(module, prompts, abi.PREFILL_BATCH, abi.DECODE, abi.DECODE_BATCH))
    separate_arguments(flow)
    if isinstance(target, GPUTarget):
        schedule_dispatches(flow, target.kind, target.gpu)
    return flow, bodies


def _layers(module: ir.Module, *variants: str) -> set[str]:
    """The names of the layer functions of `variants`.

    Not that of a step, which a loop calls: of what a loop computes itself IREE 3.13 packs two
    tensors that it carries on into one buffer, and takes both from its begin in the next round.
    """
    prefixes = tuple(f"{variant}." for variant in variants)
    names = (function.sym_name.value for function in functions(module) if is_layer(function))
    return {name for name in names if name.startswith(prefixes)}


def record_commands(flow: iree_ir.Module, target: Target) -> iree_ir.Module:
    """`flow` in IREE's HAL dialect, where what is the same for every token is recorded once.

    Raises IREEError.
    """
    text = _compile(_text(flow.operation), target, "--compile-from=flow", "--compile-to=hal")
    commands = _parse(text, iree_ir.Context())
    for step in (abi.DECODE, abi.DECODE_BATCH):
        record_once(commands, step)
    return commands


def _compile(text: str, target: Target, *phases: str) -> bytes:
    try:
        with _without_warnings(target):
            return iree.compile_str(text, extra_args=[*target.flags, *OPTIONS, *phases])
    except iree.CompilerToolError as error:
        if _NO_ROOM.search(str(error)):
            folder = os.environ.get("TMPDIR", tempfile.gettempdir())
            raise UserError(f"IREE cannot write temporary files to {folder}: set TMPDIR") from error
        raise IREEError(str(error)) from error


def _parse(text: str | bytes, context: iree_ir.Context) -> iree_ir.Module:
    try:
        return iree_ir.Module.parse(text, context)
    except iree_ir.MLIRError as error:
        raise IREEError(str(error)) from error


def _without_warnings(target: Target) -> AbstractContextManager[object]:
    """Hides that integers are narrowed in public functions, where the target asks for that."""
    return nullcontext() if target.integers == "i64" else redirect_stderr(io.StringIO())


def _text(module: ir.Operation | iree_ir.Operation) -> str:
    # Passes verify what they leave, and so does the parser that reads it.
    return module.get_asm(enable_debug_info=True, assume_verified=True)
