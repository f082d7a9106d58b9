"""`llmc.cache_allocate`, `llmc.cache_append`, `llmc.cache_read`: the KV cache.

A cache is a tensor `[layers, sequences, heads, capacity, channels]` for the keys and one for the
values. Appending and reading cost what they move: neither depends on the capacity.
"""

from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import bufferization, ext

from llmc.dialects.checks import (
    at_most,
    filled,
    like,
    require,
    same,
    same_element,
    static,
    tensor_of,
    verified,
)
from llmc.dialects.index_notation import insert, sizes, slice_of
from llmc.dialects.llmc import Operation


class CacheAllocateOp(Operation, name="cache_allocate"):
    """Room of its own for a cache.

    What it holds is undefined. `to-iree` turns its lowering into an allocation of IREE's.

        %cache = "llmc.cache_allocate"(%sequences, %capacity)
               : (index, index) -> tensor<30x?x3x?x64xf32>
    """

    sequences: ext.Operand[ir.IndexType]
    capacity: ext.Operand[ir.IndexType]
    out: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks that sequences and capacity, and they alone, are dynamic."""
        _, sequences, _, capacity, _ = tensor_of(self.out, "out", 5)
        for what, dim, extent in (("sequences", 1, sequences), ("capacity", 3, capacity)):
            fault = f"must be dynamic in dimension {dim} ({what}), but is {self.out.type}"
            require(extent is None, fault, "out")
        static("out", self.out, 0, 2, 4)

    @staticmethod
    def reference(
        sequences: int, capacity: int, layers: int, heads: int, channels: int
    ) -> np.ndarray:
        """`[layers, sequences, heads, capacity, channels]`, undefined."""
        return np.empty((layers, sequences, heads, capacity, channels), np.float32)

    def lower(self) -> ir.Value:
        """An allocation: of two `tensor.empty` of one shape CSE would make one."""
        return bufferization.alloc_tensor(self.out.type, [self.sequences, self.capacity])


class CacheAppendOp(Operation, name="cache_append", traits=[ext.Pure]):
    """`cache` with `rows [B, H, T, D]` written for one layer.

    They go to sequences `sequence` to `sequence + B - 1`, columns `column` to `column + T - 1`.

        %new = "llmc.cache_append"(%cache, %rows, %layer, %sequence, %column)
             : (tensor<30x?x3x?x64xf32>, tensor<1x3x?x64xf32>, index, index, index)
             -> tensor<30x?x3x?x64xf32>
    """

    cache: ext.Operand[Any]
    rows: ext.Operand[Any]
    layer: ext.Operand[ir.IndexType]
    sequence: ext.Operand[ir.IndexType]
    column: ext.Operand[ir.IndexType]
    out: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks that rows are no more than the cache holds, and of its heads and channels."""
        cache, rows = tensor_of(self.cache, "cache", 5), tensor_of(self.rows, "rows", 4)
        filled("cache", self.cache, 2, 3, 4)
        at_most("rows", "a batch", rows[0], cache[1])
        same("rows", "its heads", rows[1], cache[2])
        at_most("rows", "tokens", rows[2], cache[3])
        same("rows", "its channels", rows[3], cache[4])
        same_element("rows", self.rows, self.cache)
        like("out", self.out, "cache", self.cache)

    @staticmethod
    def reference(
        cache: np.ndarray, rows: np.ndarray, layer: int, sequence: int, column: int
    ) -> np.ndarray:
        """`[layers, sequences, G, capacity, D]`, `[B, G, T, D]` -> the cache's shape."""
        batch, _, tokens, _ = rows.shape
        new = cache.copy()
        new[layer, sequence : sequence + batch, :, column : column + tokens] = rows
        return new

    def lower(self) -> ir.Value:
        """An insertion, which IREE does in place."""
        batch, heads, tokens, channels = sizes(self.rows)
        offsets = [self.layer, self.sequence, 0, self.column, 0]
        return insert(self.rows, self.cache, offsets, [1, batch, heads, tokens, channels])


class CacheReadOp(Operation, name="cache_read", traits=[ext.Pure]):
    """Columns 0 to `columns - 1` of one layer, sequences `sequence` to `sequence + B - 1`.

    B is the size of the result's first dimension where static, else the value `batch`.

        %keys = "llmc.cache_read"(%cache, %layer, %sequence, %batch, %columns)
              : (tensor<30x?x3x?x64xf32>, index, index, index, index) -> tensor<1x3x?x64xf32>
    """

    cache: ext.Operand[Any]
    layer: ext.Operand[ir.IndexType]
    sequence: ext.Operand[ir.IndexType]
    batch: ext.Operand[ir.IndexType]
    columns: ext.Operand[ir.IndexType]
    out: ext.Result[Any]

    @verified
    def verify_invariants(self) -> None:
        """Checks that the result is no more than the cache, and of its heads and channels."""
        cache, out = tensor_of(self.cache, "cache", 5), tensor_of(self.out, "out", 4)
        static("cache", self.cache, 2, 4)
        filled("cache", self.cache, 2, 3, 4)
        at_most("out", "a batch", out[0], cache[1])
        same("out", "its heads", out[1], cache[2])
        at_most("out", "columns", out[2], cache[3])
        same("out", "its channels", out[3], cache[4])
        same_element("out", self.out, self.cache)

    @staticmethod
    def reference(
        cache: np.ndarray, layer: int, sequence: int, batch: int, columns: int
    ) -> np.ndarray:
        """`[layers, sequences, G, capacity, D]` -> `[B, G, columns, D]`."""
        return cache[layer, sequence : sequence + batch, :, :columns]

    def lower(self) -> ir.Value:
        """A slice, which IREE reads in place."""
        _, _, heads, _, channels = self.cache.type.shape
        batch = self.batch if self.out.type.is_dynamic_dim(0) else self.out.type.get_dim_size(0)
        extents = [batch, heads, self.columns, channels]
        return slice_of(self.cache, [self.layer, self.sequence, 0, 0, 0], [1, *extents], extents)
