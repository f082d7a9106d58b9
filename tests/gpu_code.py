"""What kernels of GPUs are compiled to, and what the code of any of them shows."""

import re

import iree.compiler
from torch_mlir import ir

from llmc.pipelines.iree import OPTIONS
from llmc.pipelines.kernels.launch import MARKER
from llmc.pipelines.targets.parse import parse_gpu


def compile_for(module: ir.Module, name: str, *flags: str) -> bytes:
    """`module`, which has its kernels, for a target, or what of it the flags ask for."""
    target = parse_gpu(name)
    target.mark(module)
    return iree.compiler.compile_str(str(module), extra_args=[*target.flags, *OPTIONS, *flags])


def schedules_in(code: bytes) -> list[str]:
    """The schedules of the kernels that IREE was given finished, in their order."""
    return re.findall(rf'{MARKER} = "(\w+)"', code.decode())


def check_ptx(code: bytes, arch: str, *reads: str) -> None:
    """It is for `arch`, spills no registers, and has instructions like each of `reads`."""
    ptx = code.decode(errors="ignore")
    assert f".target {arch}" in ptx
    assert ".local" not in ptx
    for read in reads:
        assert re.search(read, ptx)
