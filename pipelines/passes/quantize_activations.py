"""`quantize-activations`: multiplies quantised weights by integers."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.extras import types as T

from llmc.dialects import QuantizedLinearOp, QuantizeRowsOp
from llmc.dialects.attributes import i64
from llmc.pipelines.passes.base import Pass
from llmc.pipelines.walks import find


@dataclass(frozen=True)
class QuantizeActivations(Pass):
    """Puts `llmc.quantize_rows` before every `llmc.quantized_linear` on floats.

    CSE leaves one to the layers that read the same activations. Changes numerics: each activation
    is rounded to a 127th of the largest of those that meet the same block.
    """

    name: ClassVar[str] = "quantize-activations"

    def apply(self, module: ir.Module) -> None:
        """Rewrites layer by layer."""
        for op in find(module.operation, "llmc.quantized_linear"):
            if op.opview.scales is None:
                _quantize(op.opview)


def _quantize(linear: QuantizedLinearOp) -> None:
    shape = linear.x.type.shape
    values = ir.RankedTensorType.get(shape, T.i8())
    blocks = linear.weight.type.shape[1]
    scales = ir.RankedTensorType.get([*shape[:-1], blocks], T.f32())
    with ir.InsertionPoint(linear), linear.location:
        group = linear.weight.type.element_type.format.values
        rows = QuantizeRowsOp(linear.x, i64(group), values, scales)
        new = QuantizedLinearOp(
            rows.values, linear.weight, linear.out.type, scales=rows.scales, bias=linear.bias
        )
    linear.out.replace_all_uses_with(new.out)
    linear.operation.erase()
