"""`llmc.rotary_table`: the cosines or sines that rotary embedding needs, for every position."""

from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, ext, math
from torch_mlir.extras import types as T

from llmc.dialects.checks import (
    counts,
    floats,
    number,
    require,
    same_element,
    shaped,
    static,
    tensor_of,
    verified,
)
from llmc.dialects.index_notation import constant, loop_index, pointwise
from llmc.dialects.llmc import Operation

FUNCTIONS = {"cos": (math.cos, np.cos), "sin": (math.sin, np.sin)}


class RotaryTableOp(Operation, name="rotary_table", traits=[ext.Pure]):
    """`scale * function(p * frequencies)` for the positions p from 0 to `positions - 1`.

    `frequencies [R]` give a table `[positions, R]`; `function` is cos or sin. A row of it is what
    `llmc.rotary` takes for a token. Su et al., "RoFormer", 2021; the scale is that of Peng et al.,
    "YaRN", 2023.

        %cos = "llmc.rotary_table"(%frequencies)
             {positions = 8192 : i64, function = "cos", scale = 1.0 : f64}
             : (tensor<64xf32>) -> tensor<8192x64xf32>
    """

    frequencies: ext.Operand[Any]
    positions: ir.IntegerAttr
    function: ir.StringAttr
    scale: ir.FloatAttr
    out: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks the table's shape, and that there is such a function."""
        (width,) = tensor_of(self.frequencies, "frequencies", 1)
        floats("frequencies", self.frequencies)
        static("frequencies", self.frequencies)
        counts("positions", self.positions)
        fault = f"must be {' or '.join(FUNCTIONS)}, but is '{self.function.value}'"
        require(self.function.value in FUNCTIONS, fault, "function")
        number("scale", self.scale, self.frequencies)
        shaped("out", self.out, [self.positions.value, width])
        static("out", self.out)
        same_element("out", self.out, self.frequencies)

    @staticmethod
    def reference(
        frequencies: np.ndarray, positions: int, function: str, scale: float
    ) -> np.ndarray:
        """`frequencies [R]` -> `[positions, R]`."""
        numbers = np.arange(positions).astype(frequencies.dtype)
        _, compute = FUNCTIONS[function]
        return compute(numbers[:, None] * frequencies) * frequencies.dtype.type(scale)

    def lower(self) -> ir.Value:
        """One elementwise operation on the frequencies and the number of the row."""
        element, i64 = self.out.type.element_type, T.i64()
        compute, _ = FUNCTIONS[self.function.value]

        def point(frequency: ir.Value, _: ir.Value) -> ir.Value:
            position = arith.sitofp(element, arith.index_cast(i64, loop_index(0)))
            value = compute(arith.mulf(position, frequency))
            return arith.mulf(value, constant(self.scale.value, element))

        return pointwise("r->pr", point, self.frequencies, p=self.positions.value)
