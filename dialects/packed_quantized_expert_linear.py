"""`llmc.packed_quantized_expert_linear` and its grouped form: experts in panels of blocks."""

from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import ext

from llmc.dialects.block_product import first_outputs, multiply_blocks
from llmc.dialects.blocks import FORMATS
from llmc.dialects.checks import (
    element_is,
    filled,
    same,
    shaped,
    static,
    tensor_of,
    verified,
)
from llmc.dialects.embedding import look_up
from llmc.dialects.expert_linear import check_expert_rows
from llmc.dialects.group_rows import check_groups, expert_of_rows, find_experts
from llmc.dialects.index_notation import collapse, pointwise
from llmc.dialects.llmc import Operation
from llmc.dialects.packed_quantized_linear import PackedQuantizedLinearOp
from llmc.dialects.panel_checks import check_block_panels
from llmc.dialects.panel_layout import take_apart


class PackedQuantizedExpertLinearOp(
    Operation, name="packed_quantized_expert_linear", traits=[ext.Pure]
):
    """`llmc.expert_linear` with `weight [E, N/J, K/G, S]`, in integers.

    Each matrix is what `llmc.pack_blocks` makes of blocks of `format`, by which the rows of x are
    multiplied as by `llmc.packed_quantized_linear`. Every row reads its matrix: right for the rows
    of one token, whose experts differ.

        %y = "llmc.packed_quantized_expert_linear"(%x, %expert, %w)
           {format = "q4_0", top_k = 8 : i64}
           : (tensor<1x64xf32>, tensor<8xi64>, tensor<16x16x2x288xi8>) -> tensor<8x256xf32>
    """

    x: ext.Operand[Any]
    expert: ext.Operand[Any]
    weight: ext.Operand[Any]
    format: ir.StringAttr
    top_k: ir.IntegerAttr
    out: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks the format, rows, K and N across operands, and element types."""
        inputs, outputs = _check_product(self)
        check_expert_rows(self, "expert", inputs, outputs)

    @staticmethod
    def reference(
        x: np.ndarray, expert: np.ndarray, weight: np.ndarray, format: str, top_k: int, outputs: int
    ) -> np.ndarray:
        """`x [R, K]`, `expert [R * top_k]`, int8 `[E, N/J, K/G, S]` -> `[R * top_k, N]`."""
        return _multiplied(np.repeat(x, top_k, axis=0), expert, weight, format, outputs)

    def lower(self) -> ir.Value:
        """A gather of rows and of the panels that each has chosen, and sums of their products."""
        rows = pointwise("rk->rck", lambda x, _: x, self.x, c=self.top_k.value)
        return _lower(self, collapse(rows, [2, 1]), self.expert)


class GroupedQuantizedExpertLinearOp(
    Operation, name="grouped_quantized_expert_linear", traits=[ext.Pure]
):
    """`llmc.packed_quantized_expert_linear` of rows that lie one expert's after another's.

    Row r of the result is row r of `x [R, K]` through the matrix e for which r is from `first[e]`
    to `first[e + 1] - 1`, as `llmc.group_rows` gives them: each matrix is read once, for all its
    rows. Gale et al., "MegaBlocks", 2022.

        %y = "llmc.grouped_quantized_expert_linear"(%x, %first, %w) {format = "q4_0"}
           : (tensor<?x64xf32>, tensor<17xi32>, tensor<16x16x2x288xi8>) -> tensor<?x256xf32>
    """

    x: ext.Operand[Any]
    first: ext.Operand[Any]
    weight: ext.Operand[Any]
    format: ir.StringAttr
    out: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks the format, rows, K, N and E across operands, and element types."""
        inputs, outputs = _check_product(self)
        rows, width = tensor_of(self.x, "x", 2)
        same("x", "its last dimension", width, inputs)
        shaped("out", self.out, [rows, outputs])
        check_groups(self)

    @staticmethod
    def reference(
        x: np.ndarray, first: np.ndarray, weight: np.ndarray, format: str, outputs: int
    ) -> np.ndarray:
        """`x [R, K]`, `first [E + 1]`, int8 `[E, N/J, K/G, S]` -> `[R, N]`."""
        return _multiplied(x, expert_of_rows(first), weight, format, outputs)

    def lower(self) -> ir.Value:
        """The expert of each row, and the same sums as without groups."""
        return _lower(self, self.x, find_experts(self))


def _check_product(op: Any) -> tuple[int, int]:
    """Checks the format, `weight`, and the element types of `x` and `out`; returns K and N."""
    outputs = tensor_of(op.out, "out", 2)[1]
    static("out", op.out, 1)
    for name, value in (("x", op.x), ("out", op.out)):
        tensor_of(value, name, 2)
        element_is(name, value, "f32")
    filled("x", op.x)
    per_row = check_block_panels(op.weight, "weight", op.format, outputs, rank=4)
    return per_row * FORMATS[op.format.value].values, outputs


def _multiplied(
    x: np.ndarray, expert: np.ndarray, weight: np.ndarray, format: str, outputs: int
) -> np.ndarray:
    """Row by row, as `llmc.packed_quantized_linear` does it."""
    rows = (
        PackedQuantizedLinearOp.reference(row[None], weight[chosen], format, outputs)
        for row, chosen in zip(x, expert, strict=True)
    )
    return np.concatenate(list(rows))


def _lower(op: Any, rows: ir.Value, expert: ir.Value) -> ir.Value:
    """`rows [R, K]`, each through the matrix that `expert [R]` says."""
    chosen = take_apart(look_up(expert, op.weight), FORMATS[op.format.value])
    return first_outputs(multiply_blocks(rows, chosen, "tpbj"), op.out.type.shape[1])
