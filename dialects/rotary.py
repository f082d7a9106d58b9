"""`llmc.rotary`: rotary position embedding."""

from functools import partial
from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, ext, tensor

from llmc.dialects.checks import (
    at_most,
    flag,
    floats,
    like,
    multiple,
    same,
    same_element,
    static,
    tensor_of,
    verified,
)
from llmc.dialects.index_notation import (
    collapse,
    expand,
    index,
    loop_index,
    reduce,
    size,
    sizes,
    slice_of,
)
from llmc.dialects.llmc import Operation
from llmc.dialects.sharding_rule import ShardingRule, by_letters


class RotaryOp(Operation, name="rotary", traits=[ext.Pure]):
    """Rotates the first R of D channels of `x [B, H, T, D]` by tables `[B or 1, T, R]`.

    The members of pair i, which columns i and i + R/2 of the tables turn, are channels i and i +
    R/2; those that are `interleaved` are channels 2i and 2i + 1. Su et al., "RoFormer", 2021.

        %y = "llmc.rotary"(%x, %cos, %sin) {interleaved = 0 : i64}
           : (tensor<1x9x?x64xf32>, tensor<1x?x64xf32>, tensor<1x?x64xf32>) -> tensor<1x9x?x64xf32>
    """

    x: ext.Operand[Any]
    cos: ext.Operand[Any]
    sin: ext.Operand[Any]
    interleaved: ir.IntegerAttr
    out: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks the tables against x."""
        batch, _, tokens, channels = tensor_of(self.x, "x", 4)
        floats("x", self.x)
        for name, table in (("cos", self.cos), ("sin", self.sin)):
            rows, columns, rotated = tensor_of(table, name, 3)
            if rows != 1:
                same(name, "its batch", rows, batch)
            same(name, "its tokens", columns, tokens)
            same_element(name, table, self.x)
            static(name, table, 2)
            multiple(name, "its last dimension", rotated, 2)
            at_most(name, "a last dimension", rotated, channels)
        like("sin", self.sin, "cos", self.cos)
        flag("interleaved", self.interleaved)
        like("out", self.out, "x", self.x)

    def sharding(self) -> ShardingRule:
        """By sequences, heads or tokens."""
        rows = "." if self.cos.type.shape[0] == 1 else "b"
        return by_letters(self, x="bht.", cos=f"{rows}t.", sin=f"{rows}t.", out="bht.")

    @staticmethod
    def reference(
        x: np.ndarray, cos: np.ndarray, sin: np.ndarray, interleaved: int = 0
    ) -> np.ndarray:
        """`x [B, H, T, D]`, `cos` and `sin [B or 1, T, R]` -> `[B, H, T, D]`."""
        cos, sin = cos[:, None], sin[:, None]
        half = cos.shape[-1] // 2
        members = (
            (slice(0, 2 * half, 2), slice(1, 2 * half, 2))
            if interleaved
            else (slice(half), slice(half, 2 * half))
        )
        low, high = (x[..., member] for member in members)
        y = x.astype(np.result_type(x, cos))
        y[..., members[0]] = low * cos[..., :half] - high * sin[..., :half]
        y[..., members[1]] = high * cos[..., half:] + low * sin[..., half:]
        return y

    def lower(self) -> ir.Value:
        """One reduction of two terms: each pair of channels is turned by its own 2x2 matrix."""
        width = self.cos.type.get_dim_size(2)
        batch, heads, tokens, channels = sizes(self.x)
        extents = [batch, heads, tokens, width]
        whole = width == channels
        rotated = self.x if whole else slice_of(self.x, [0, 0, 0, 0], extents, extents)
        interleaved = bool(self.interleaved.value)
        split = [width // 2, 2] if interleaved else [2, width // 2]
        pairs = expand(rotated, [[batch], [heads], [tokens], split])
        tables = [
            expand(table, [[size(table, 0)], [size(table, 1)], [2, width // 2]])
            for table in (self.cos, self.sin)
        ]
        b = "1" if self.cos.type.shape[0] == 1 else "b"
        source, target = ("ip", "is") if interleaved else ("pi", "si")
        turn = partial(_turn, side=3 + target.index("s"))
        turned = reduce(f"bht{source},{b}tsi,{b}tsi->bht{target}", turn, 0.0, pairs, *tables)
        y = collapse(turned, [1, 1, 1, 2])
        return y if whole else self._with_rest(y)

    def _with_rest(self, rotated: ir.Value) -> ir.Value:
        """`rotated`, and the channels that are not.

        As an insertion into x, IREE 3.13 confuses it with the one into the KV cache of a single
        head that follows in decode.
        """
        width = self.cos.type.get_dim_size(2)
        *leading, channels = sizes(self.x)
        kept = channels - width if isinstance(channels, int) else arith.subi(channels, index(width))
        extents = [*leading, kept]
        rest = slice_of(self.x, [0, 0, 0, width], extents, extents)
        return tensor.concat(self.x.type, 3, [rotated, rest])


def _turn(x: ir.Value, cos: ir.Value, sin: ir.Value, sum_: ir.Value, side: int) -> ir.Value:
    """Adds x times the matrix [[cos, -sin], [sin, cos]] at row and column of a pair.

    The row is the loop number `side`, the column the innermost one.
    """
    row, column = loop_index(side), loop_index(5)
    diagonal = arith.cmpi(arith.CmpIPredicate.eq, row, column)
    upper = arith.cmpi(arith.CmpIPredicate.ult, row, column)
    factor = arith.select(diagonal, cos, arith.select(upper, arith.negf(sin), sin))
    return arith.addf(sum_, arith.mulf(x, factor))
