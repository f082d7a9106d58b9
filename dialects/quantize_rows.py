"""`llmc.quantize_rows`: dynamic quantisation of activations."""

from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, ext, math
from torch_mlir.extras import types as T

from llmc.dialects.blocks import inverse, round_half_away
from llmc.dialects.checks import counts, element_is, in_blocks, shaped, tensor_of, verified
from llmc.dialects.index_notation import collapse, letters, pointwise
from llmc.dialects.llmc import Operation
from llmc.dialects.quantize import divided, in_rows, largest_magnitude, times_inverse


class QuantizeRowsOp(Operation, name="quantize_rows", traits=[ext.Pure]):
    """`x [..., K]` as integers `values [..., K]` and factors `scales [..., K/G]`, G being `group`.

    Every G values have a scale, the largest magnitude divided by 127; a value is `x / scale`
    rounded to the nearest, and half away from zero. In groups of 32 as ggml's Q8_0, but that the
    scales stay in f32. `x` holds finite numbers.

        %values, %scales = "llmc.quantize_rows"(%x) {group = 32 : i64}
           : (tensor<1x?x576xf32>) -> (tensor<1x?x576xi8>, tensor<1x?x18xf32>)
    """

    x: ext.Operand[Any]
    group: ir.IntegerAttr
    values: ext.Result[Any]
    scales: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks that x is f32 in rows of whole groups, values i8 of its shape, and scales f32."""
        shape = tensor_of(self.x, "x", at_least=1)
        counts("group", self.group)
        element_is("x", self.x, "f32")
        shaped("values", self.values, shape)
        element_is("values", self.values, "i8")
        groups = in_blocks("x", shape[-1], self.group.value)
        shaped("scales", self.scales, [*shape[:-1], groups])
        element_is("scales", self.scales, "f32")

    @staticmethod
    def reference(x: np.ndarray, group: int) -> tuple[np.ndarray, np.ndarray]:
        """`x [..., K]` -> int8 `[..., K]`, float32 `[..., K/G]`."""
        rows = x.reshape(*x.shape[:-1], -1, group)
        scales = np.abs(rows).max(-1, keepdims=True) / np.float32(127)
        values = round_half_away(rows * inverse(scales))
        return values.astype(np.int8).reshape(x.shape), scales[..., 0]

    def lower(self) -> list[ir.Value]:
        """A reduction for the largest magnitudes, and an elementwise operation each."""
        values, scales = nearest_integers(in_rows(self.x, self.group.value))
        return [collapse(values, [*[1] * (self.x.type.rank - 1), 2]), scales]


def nearest_integers(rows: ir.Value) -> tuple[ir.Value, ir.Value]:
    """`rows [..., G]` as integers i8 `[..., G]` and the scale of each row, f32 `[...]`."""
    scales = divided(largest_magnitude(rows), 127.0)
    lead, i8 = letters(rows.type.rank - 1), T.i8()

    def nearest(x: ir.Value, scale: ir.Value, _: ir.Value) -> ir.Value:
        return arith.fptosi(i8, math.round(times_inverse(x, scale)))

    return pointwise(f"{lead}v,{lead}->{lead}v", nearest, rows, scales, element=i8), scales
