"""`narrow-activations`: multiplies bf16 by bf16, where a CPU does so two at a time."""

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import arith
from torch_mlir.extras import types as T

from llmc.dialects import GroupedExpertLinearOp, PackedLinearOp
from llmc.dialects.index_notation import letters, pointwise, sizes
from llmc.pipelines.kernels.pair_instructions import LANES, InstructionName
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.operations import made_by
from llmc.pipelines.walks import find

_MULTIPLE = 32
"""Terms of a sum are a multiple of it, so that pairs make partial sums that are even and long."""


@dataclass(frozen=True)
class NarrowActivations(Pass):
    """Rounds to bf16 what a linear layer of several rows multiplies by a weight of bf16.

    That is for a CPU whose `instruction` multiplies pairs of them: twice as many products as of
    f32. Layers are `llmc.packed_linear` and `llmc.grouped_expert_linear`, whose sums stay in f32. A
    single row waits for memory, and is not rounded. Changes numerics: an activation has 8 bits
    then, as in PyTorch, which also rounds sums.
    """

    name: ClassVar[str] = "narrow-activations"
    instruction: InstructionName = "vdpbf16ps"

    def apply(self, module: ir.Module) -> None:
        """Rewrites layer by layer."""
        for op in find(module.operation, "llmc.packed_linear", "llmc.grouped_expert_linear"):
            if self._fits(op.opview):
                with ir.InsertionPoint(op), op.location:
                    op.operands[0] = _rounded(op.opview.x)

    def _fits(self, linear: PackedLinearOp | GroupedExpertLinearOp) -> bool:
        *leading, inputs = linear.x.type.shape
        *_, columns = linear.weight.type.shape
        x, weight = (each.type.element_type for each in (linear.x, linear.weight))
        return (
            prod(leading) != 1
            and inputs % _MULTIPLE == 0
            and columns in LANES.get(self.instruction, ())
            and (x, weight) == (T.f32(), T.bf16())
        )


def _rounded(x: ir.Value) -> ir.Value:
    loops, bf16 = letters(x.type.rank), T.bf16()
    # To ask x itself how long it is would keep it from being rounded where it is computed.
    computed = made_by(x, "linalg.generic")
    extents = dict(zip(loops, sizes(list(computed.operands)[-1] if computed else x), strict=True))

    def narrow(number: ir.Value, _: ir.Value) -> ir.Value:
        return arith.truncf(bf16, number)

    return pointwise(f"{loops}->{loops}", narrow, x, element=bf16, **extents)
