"""What a module is compiled to for this CPU."""

import iree.compiler
import pytest
from torch_mlir import ir

from llmc.pipelines.iree import UNVERIFIED
from llmc.pipelines.targets.cpu import BYTE_INSTRUCTIONS, ByteInstruction, CPUTarget

LANES, BYTES = CPUTarget().columns, CPUTarget().byte_instruction
"""The floats of a vector register of this CPU, and how it multiplies bytes."""
OF_256_BITS = "vpmaddubsw" if "avx2" in CPUTarget().facts.features else "plain"
"""The instruction that multiplies bytes in registers of 256 bits."""
REGISTERS = [*dict.fromkeys([(LANES, BYTES.name), (8, OF_256_BITS)])]
"""The floats of the widest registers and of those of 256 bits, and what multiplies bytes there."""


def require(instruction: ByteInstruction) -> None:
    """Skips a test of what multiplies bytes by an instruction that this CPU lacks."""
    features = {
        feature
        for feature, best in BYTE_INSTRUCTIONS.items()
        if best.name == instruction.name and best.lanes >= instruction.lanes
    }
    if features and features.isdisjoint(CPUTarget().facts.features):
        pytest.skip(f"this CPU has no {instruction.name} of {32 * instruction.lanes} bits")


def compile_for_cpu(module: ir.Module) -> bytes:
    """The code of `module`, as IREE makes it where it is not told to optimise."""
    return iree.compiler.compile_str(str(module), extra_args=[*CPUTarget().flags, UNVERIFIED])
