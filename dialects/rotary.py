"""`llmc.rotary`: rotary position embedding."""

from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, ext, tensor

from llmc.dialects.checks import (
    at_most,
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

    Channel i is paired with channel i + R/2. Su et al., "RoFormer", 2021.

        %y = "llmc.rotary"(%x, %cos, %sin)
           : (tensor<1x9x?x64xf32>, tensor<1x?x64xf32>, tensor<1x?x64xf32>) -> tensor<1x9x?x64xf32>
    """

    x: ext.Operand[Any]
    cos: ext.Operand[Any]
    sin: ext.Operand[Any]
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
        like("out", self.out, "x", self.x)

    def sharding(self) -> ShardingRule:
        """By sequences, heads or tokens."""
        rows = "." if self.cos.type.shape[0] == 1 else "b"
        return by_letters(self, x="bht.", cos=f"{rows}t.", sin=f"{rows}t.", out="bht.")

    @staticmethod
    def reference(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
        """`x [B, H, T, D]`, `cos` and `sin [B or 1, T, R]` -> `[B, H, T, D]`."""
        cos, sin = cos[:, None], sin[:, None]
        half = cos.shape[-1] // 2
        low, high, kept = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
        turned = [
            low * cos[..., :half] - high * sin[..., :half],
            high * cos[..., half:] + low * sin[..., half:],
        ]
        return np.concatenate([*turned, kept], axis=-1)

    def lower(self) -> ir.Value:
        """One reduction of two terms: each pair of channels is turned by its own 2x2 matrix."""
        width = self.cos.type.get_dim_size(2)
        batch, heads, tokens, channels = sizes(self.x)
        extents = [batch, heads, tokens, width]
        whole = width == channels
        rotated = self.x if whole else slice_of(self.x, [0, 0, 0, 0], extents, extents)
        pairs = expand(rotated, [[batch], [heads], [tokens], [2, width // 2]])
        tables = [
            expand(table, [[size(table, 0)], [size(table, 1)], [2, width // 2]])
            for table in (self.cos, self.sin)
        ]
        b = "1" if self.cos.type.shape[0] == 1 else "b"
        turned = reduce(f"bhtpi,{b}tsi,{b}tsi->bhtsi", _turn, 0.0, pairs, *tables)
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


def _turn(x: ir.Value, cos: ir.Value, sin: ir.Value, sum_: ir.Value) -> ir.Value:
    """Adds x times the matrix [[cos, -sin], [sin, cos]] at row `side`, column `source`."""
    side, source = loop_index(3), loop_index(5)
    diagonal = arith.cmpi(arith.CmpIPredicate.eq, side, source)
    upper = arith.cmpi(arith.CmpIPredicate.ult, side, source)
    factor = arith.select(diagonal, cos, arith.select(upper, arith.negf(sin), sin))
    return arith.addf(sum_, arith.mulf(x, factor))
