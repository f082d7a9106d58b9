"""`quantize-weights`: stores the weights of linear layers as blocks of few bits."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from llmc.dialects import LinearOp, QuantizedLinearOp, QuantizeOp
from llmc.dialects.block_types import block_type
from llmc.dialects.blocks import FORMATS, Q4_0, VALUES
from llmc.pipelines.passes.base import Pass, find
from llmc.pipelines.passes.weight_expressions import is_used_once, stored_alike


@dataclass(frozen=True)
class QuantizeWeights(Pass):
    """Turns `llmc.linear` into `llmc.quantized_linear` over the `llmc.quantize` of its weight.

    Of `[N, K]` weight expressions in f32 that serve nothing else, K being a multiple of 32. Changes
    numerics: every weight is rounded to a value that a block of `format` (q4_0, q4_1, q8_0) holds.
    """

    name: ClassVar[str] = "quantize-weights"
    format: str = Q4_0.name

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise ValueError(f"format must be one of {', '.join(FORMATS)}, not '{self.format}'")

    def apply(self, module: ir.Module) -> None:
        """Rewrites every layer whose weight allows it."""
        linears = [op.opview for op in find(module.operation, "llmc.linear")]
        quantizable = [linear for linear in linears if _is_quantizable(linear)]
        for linear in stored_alike(module, quantizable, lambda linear: [linear.weight]):
            self._quantize(linear)

    def _quantize(self, linear: LinearOp) -> None:
        outputs, inputs = linear.weight.type.shape
        type_ = ir.RankedTensorType.get(
            [outputs, inputs // VALUES], block_type(FORMATS[self.format])
        )
        with ir.InsertionPoint(linear), linear.location:
            weight = QuantizeOp(linear.weight, type_).out
            new = QuantizedLinearOp(linear.x, weight, linear.out.type, bias=linear.bias)
        linear.out.replace_all_uses_with(new.out)
        linear.operation.erase()


def _is_quantizable(linear: LinearOp) -> bool:
    weight, f32 = linear.weight, ir.F32Type.get()
    return (
        is_used_once(weight)
        and not linear.transposed.value
        and weight.type.shape[1] % VALUES == 0
        and 0 not in weight.type.shape
        and {weight.type.element_type, linear.x.type.element_type} == {f32}
    )
