"""What kernels of quantised layers share: the product, its bias, and the epilogue."""

from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir.extras import types as T

from llmc.dialects import (
    BitcastOp,
    GroupedQuantizedExpertLinearOp,
    PackedQuantizedExpertLinearOp,
    PackedQuantizedLinearOp,
    PlaneLinearOp,
)
from llmc.dialects.block_parts import HIGH, MIDDLE, OFFSET
from llmc.dialects.blocks import FORMATS, Q8_0
from llmc.dialects.index_notation import part
from llmc.dialects.quantize import in_rows
from llmc.pipelines.kernels.marks import name_result
from llmc.pipelines.kernels.panel_linear import add_bias
from llmc.pipelines.kernels.quantized_linear import Norm, Panels, QuantizedRows, multiply, quantize
from llmc.pipelines.rewriting.linear_epilogue import find_epilogue_of_panels, follow

Linear = (
    PackedQuantizedLinearOp
    | PackedQuantizedExpertLinearOp
    | GroupedQuantizedExpertLinearOp
    | PlaneLinearOp
)


class QuantizedLayer:
    """A layer with its epilogue. A matrix of it is P = `panels` panels of J = `columns` outputs.

    `signed` says which integers the target's instructions multiply.
    """

    def __init__(self, linear: Linear, signed: bool) -> None:
        self.signed = signed
        if isinstance(linear, PlaneLinearOp):
            self.format, bytes_ = Q8_0, HIGH.bytes
            self.weights = [linear.high, *([] if linear.low is None else [linear.low])]
        else:
            self.format = FORMATS[linear.format.value]
            self.weights, bytes_ = [linear.weight], self.format.bytes
        self.in_planes = isinstance(linear, PlaneLinearOp)
        self.offset = self._offset()
        self.outputs = linear.out.type.shape[-1]
        *_, self.panels, _, cell = self.weights[0].type.shape
        self.columns = cell // bytes_
        self.is_whole = self.panels * self.columns == self.outputs
        self.epilogue = find_epilogue_of_panels(linear.out, self.panels, self.columns)

    def _offset(self) -> int:
        """How much too large the weight's integers are, where they are multiplied without a sign.

        Where instructions want signed ones these are high bits alone, and low ones are `MIDDLE`.
        """
        if not self.signed or self.format.bits < 8:
            return OFFSET if self.format.bits == 8 else self.format.offset
        return OFFSET - MIDDLE if self.in_planes else 0

    @property
    def strand(self) -> int:
        """How many panels a strand of the epilogue has, and so the result."""
        return self.panels // len(self.epilogue.strands)

    def quantize(self, x: ir.Value, norm: Norm | None) -> QuantizedRows:
        """The rows `x [T, B, G]`, normalised where there is a norm."""
        return quantize(x, norm, self.format.has_minimum, self.offset)

    def compute(
        self,
        rows: QuantizedRows,
        stored: Sequence[ir.Value],
        halves: ir.Value,
        bias: ir.Value | None = None,
        others: Sequence[ir.Value] = (),
    ) -> ir.Value:
        """What the epilogue makes of the products: `[T, P, J]`, P being those of a strand.

        `stored` are the `weights`, `halves` the bytes of the first as f16, `bias [P, J]`, and
        `others` what the epilogue reads beside the products.
        """
        products = []
        for number in range(len(self.epilogue.strands)):
            panels = self._panels([self._part(each, number) for each in (*stored, halves)])
            product = multiply(rows, panels, number)
            if bias is not None:
                product = add_bias(product, self._part(bias, number))
            products.append(product)
        result = follow(self.epilogue, products, list(others))
        name_result(result)
        return result

    def _panels(self, parts: Sequence[ir.Value]) -> Panels:
        """The panels of a strand: `parts` are what it has of each weight, and then the halves."""
        first, *low, halves = parts
        if not self.in_planes:
            return Panels.of_blocks(first, halves, self.format, self.signed)
        return Panels.of_planes(first, low[0] if low else None, halves, self.signed)

    def bias_panels(self, bias: ir.Value) -> ir.Value:
        """`bias [N]` as `[P, J]`."""
        return in_rows(bias, self.columns)

    def _part(self, value: ir.Value, strand: int) -> ir.Value:
        """The panels of `value` that belong to a strand."""
        if self.strand == value.type.shape[0]:
            return value
        return part(value, strand * self.strand, self.strand)


def as_halves(stored: ir.Value) -> ir.Value:
    """Bytes `[..., S]` seen as f16 `[..., S/2]`."""
    *shape, bytes_ = stored.type.shape
    return BitcastOp(stored, ir.RankedTensorType.get([*shape, bytes_ // 2], T.f16())).out
