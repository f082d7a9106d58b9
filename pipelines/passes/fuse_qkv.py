"""`fuse-qkv`: computes query, key and value of attention by one linear layer."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.linear_fusion import fuse_all, linears_behind
from llmc.pipelines.walks import find


@dataclass(frozen=True)
class FuseQKV(Pass):
    """Makes one linear layer of those that lead to query, key and value of attention.

    They must read the same activations. Their weights, and biases where all have one, are
    concatenated as weight expressions, which the archive stores; the result is cut up.
    """

    name: ClassVar[str] = "fuse-qkv"

    def apply(self, module: ir.Module) -> None:
        """Fuses the projections of every attention."""
        attentions = find(module.operation, "llmc.attention", "llmc.attention_part")
        fuse_all(module, [linears_behind(*list(op.operands)[:3]) for op in attentions])
