"""`fuse-gate-up`: computes both factors of a gated MLP by one linear layer."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.linear_fusion import fuse_all, linears_behind
from llmc.pipelines.rewriting.operations import made_by
from llmc.pipelines.walks import find


@dataclass(frozen=True)
class FuseGateUp(Pass):
    """Makes one linear layer of two whose results meet in a product: `act(gate) * up`.

    They must read the same activations, and be over experts both or neither. Their weights, and
    biases where both have one, are concatenated as weight expressions, which the archive stores;
    the result is cut up. Shazeer, "GLU Variants Improve Transformer", 2020.
    """

    name: ClassVar[str] = "fuse-gate-up"

    def apply(self, module: ir.Module) -> None:
        """Fuses the factors of every elementwise product."""
        products = [op for op in find(module.operation, "linalg.generic") if _multiplies(op)]
        factors = [linears_behind(*op.operands) for op in products]
        fuse_all(module, [linears for linears in factors if len(linears) == 2])


def _multiplies(generic: ir.Operation) -> bool:
    """Whether the last thing that the generic computes is a product."""
    body = generic.regions[0].blocks[0]
    *_, end = body.operations
    return any(made_by(value, "arith.mulf") for value in end.operands)
