"""`join-frequencies`: multiplies positions by all frequencies of rotary embedding at once."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import arith

from llmc.dialects.index_notation import pointwise
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.rewriting.rotary_angles import angles_in
from llmc.pipelines.walks import find


@dataclass(frozen=True)
class JoinFrequencies(Pass):
    """Makes `concat(p * f, p * f)` the product of p and `concat(f, f)`, which is made of weights.

    Angles are recognised as `fold-rotary-tables` does, p being positions and f an `llmc.parameter`.
    IREE would copy the tensors of a `tensor.concat` one by one.
    """

    name: ClassVar[str] = "join-frequencies"

    def apply(self, module: ir.Module) -> None:
        """Rewrites operation by operation."""
        for op in find(module.operation, "tensor.concat"):
            angles = angles_in(op.results[0])
            if angles:
                with ir.InsertionPoint(op), op.location:
                    product = _product(angles.positions, angles.joined_frequencies())
                op.results[0].replace_all_uses_with(product)
                op.erase()


def _product(positions: ir.Value, frequencies: ir.Value) -> ir.Value:
    """Integers `[B, T]` times `[F]`, as floats `[B, T, F]`."""
    element = frequencies.type.element_type

    def multiply(position: ir.Value, frequency: ir.Value, _: ir.Value) -> ir.Value:
        return arith.mulf(arith.sitofp(element, position), frequency)

    return pointwise("bt,f->btf", multiply, positions, frequencies, element=element)
