"""The instructions of CPUs that multiply bf16 and add up the products of two.

Each function adds to `total [J]`, f32, the products of `weights` and `values`, bf16 `[2 J]`: two
neighbours belong to a lane of the total. Subnormal numbers count as 0.
"""

from collections.abc import Callable
from typing import Annotated

from torch_mlir import ir

from llmc.pipelines.kernels.intrinsics import intrinsic
from llmc.pipelines.option_text import OneOf

PLAIN = "plain"
"""In the place of an instruction: numbers are widened, and multiplied one by one."""


def vdpbf16ps(total: ir.Value, weights: ir.Value, values: ir.Value) -> ir.Value:
    """AVX-512's, of the extension BF16."""
    name = f"llvm.x86.avx512bf16.dpbf16ps.{32 * _lanes(total)}"
    return intrinsic(name, total.type, total, weights, values)


def bfdot(total: ir.Value, weights: ir.Value, values: ir.Value) -> ir.Value:
    """Arm's."""
    name = f"llvm.aarch64.neon.bfdot.v{_lanes(total)}f32.v{2 * _lanes(total)}bf16"
    return intrinsic(name, total.type, total, weights, values)


INSTRUCTIONS: dict[str, Callable[[ir.Value, ir.Value, ir.Value], ir.Value]] = {
    "vdpbf16ps": vdpbf16ps,
    "bfdot": bfdot,
}

LANES = {"vdpbf16ps": (4, 8, 16), "bfdot": (2, 4)}
"""Of how many sums there are registers."""

InstructionName = Annotated[str, OneOf((PLAIN, *INSTRUCTIONS))]
"""One of them, as an option."""


def _lanes(value: ir.Value) -> int:
    return value.type.shape[0]
