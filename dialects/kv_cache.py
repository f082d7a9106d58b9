"""`llmc.cache_allocate`, `llmc.cache_append`, `llmc.cache_read`: the KV cache.

A cache is a tensor `[layers, sequences, heads, capacity, channels]` for the keys and one for the
values, of floats; or, rounded to blocks of 8 bits, of cells `[layers, sequences, heads, capacity /
512, channels / 32]`, `!llmc.q8_0_keys` or `!llmc.q8_0_values`. Rows that end within a block, as 80
channels do, are kept with zeros up to its end. Appending and reading cost what they move: neither
depends on the capacity.
"""

from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, bufferization, ext
from torch_mlir.extras import types as T

from llmc.dialects.block_layout import dequantize
from llmc.dialects.block_types import block_type, cell_format
from llmc.dialects.blocks import Q8_0, decode
from llmc.dialects.cache_cells import COLUMNS, CellFormat, cells_of
from llmc.dialects.cell_layout import put_together, take_apart
from llmc.dialects.checks import (
    at_most,
    element_is,
    filled,
    floats,
    like,
    require,
    same,
    same_element,
    static,
    tensor_of,
    verified,
)
from llmc.dialects.index_notation import (
    Size,
    as_value,
    filled_up,
    index,
    insert,
    letters,
    pointwise,
    size,
    sizes,
    slice_of,
    slice_of_rows,
)
from llmc.dialects.llmc import Operation
from llmc.dialects.quantize import QuantizeOp
from llmc.dialects.sharding_rule import ShardingRule, by_letters
from llmc.dialects.walsh_hadamard import transformed_blocks


def channels(cache: ir.Value) -> int:
    """The channels that a row of `cache` has room for, of which it says how many."""
    count = int(cache.type.shape[4])
    return Q8_0.values * count if cell_format(cache.type) else count


def as_wide(name: str, what: str, width: int | None, cache: ir.Value) -> None:
    """`what` of `name` is of so many channels as the rows of `cache`, which may end within cells.

    MismatchError where it is not.
    """
    room = channels(cache)
    if cell_format(cache.type) is None:
        same(name, what, width, room)
        return
    of_last = width is not None and room - Q8_0.values < width <= room
    found = "a dynamic number" if width is None else width
    fault = f"must have {what} = {room}, or up to {Q8_0.values - 1} fewer, but has {found}"
    require(of_last, fault, name)


def capacity(cache: ir.Value) -> int | None:
    """The columns that `cache` has room for, None where that is dynamic."""
    if cache.type.is_dynamic_dim(3):
        return None
    count = int(cache.type.shape[3])
    return COLUMNS * count if cell_format(cache.type) else count


def holds_rows(
    name: str, cache: ir.Value, rows: ir.Value, format_: CellFormat | None = None
) -> None:
    """The cache `name` holds floats no wider than `rows`, or cells of f32 ones.

    These are of `format_`, where it is given.
    """
    found = cell_format(cache.type)
    if found is None:
        floats(name, cache, widened_to=rows)
        return
    wanted = format_ or found
    require(found == wanted, f"must hold !llmc.{wanted.name}, but is {cache.type}", name)
    require(rows.type.element_type == T.f32(), f"must be for f32, not {rows.type}", name)


def rows_of(cache: np.ndarray) -> np.ndarray:
    """The rows `[..., capacity, D]`, or `[..., capacity, D / 32]` in blocks, that `cache` holds."""
    format_ = cells_of(cache)
    return cache if format_ is None else format_.unpack(cache)


class CacheAllocateOp(Operation, name="cache_allocate"):
    """Room of its own for a cache.

    What it holds is undefined. `capacity` counts cells where it holds these. `to-iree` turns its
    lowering into an allocation of IREE's.

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
    """`cache` with `rows [B, H, T, D]` written for one layer, rounded to what it holds.

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
        floats("rows", self.rows)
        holds_rows("cache", self.cache, self.rows)
        static("cache", self.cache, 2, 4)
        filled("cache", self.cache, 2, 3, 4)
        if cell_format(self.cache.type):
            static("rows", self.rows, 3)
            filled("rows", self.rows)
        at_most("rows", "a batch", rows[0], cache[1])
        same("rows", "its heads", rows[1], cache[2])
        at_most("rows", "tokens", rows[2], capacity(self.cache))
        as_wide("rows", "its channels", rows[3], self.cache)
        like("out", self.out, "cache", self.cache)

    def sharding(self) -> ShardingRule:
        """By heads, or by columns of the cache, for which all rows are needed."""
        return by_letters(self, cache="..gc.", rows=".g..", out="..gc.")

    @staticmethod
    def reference(
        cache: np.ndarray, rows: np.ndarray, layer: int, sequence: int, column: int
    ) -> np.ndarray:
        """`[layers, sequences, G, capacity, D]`, `[B, G, T, D]` -> the cache's shape."""
        batch, _, tokens, _ = rows.shape
        format_, new = cells_of(cache), rows_of(cache).copy()
        rounded = rows if format_ is None else format_.encode(rows)
        new[layer, sequence : sequence + batch, :, column : column + tokens] = rounded
        return new if format_ is None else format_.pack(new)

    def lower(self) -> ir.Value:
        """The rounding, and an insertion, which IREE does in place: of rows, or whole cells."""
        rows = self._rounded()
        if cell_format(self.cache.type):
            return self._insert_cells(rows)
        return insert(rows, self.cache, self._place(self.column), [1, *sizes(rows)])

    def _insert_cells(self, rows: ir.Value) -> ir.Value:
        """The cells in reach, with the blocks `rows [B, G, T, K]` put into them."""
        first = arith.divui(self.column, index(COLUMNS))
        end = _cells(arith.addi(self.column, as_value(size(rows, 2))))
        batch, heads, _, count = sizes(rows)
        extents = [batch, heads, arith.subi(end, first), count]
        place = self._place(first)
        old = take_apart(slice_of(self.cache, place, [1, *extents], extents))
        within = arith.remui(self.column, index(COLUMNS))
        new = put_together(
            insert(rows, old, [0, 0, within, 0], sizes(rows)), self.cache.type.element_type
        )
        return insert(new, self.cache, place, [1, *extents])

    def _place(self, column: ir.Value) -> list[Size]:
        return [self.layer, self.sequence, 0, column, 0]

    def _rounded(self) -> ir.Value:
        element, rows = self.cache.type.element_type, self.rows
        if rows.type.element_type == element:
            return rows
        if format_ := cell_format(self.cache.type):
            *shape, _ = rows.type.shape
            rows = filled_up(rows, 3, channels(self.cache))
            type_ = ir.RankedTensorType.get([*shape, self.cache.type.shape[4]], block_type(Q8_0))
            quantize = QuantizeOp(transformed_blocks(rows) if format_.transformed else rows, type_)
            blocks = quantize.lower()
            quantize.operation.erase()
            return blocks
        lead = letters(rows.type.rank)
        return pointwise(
            f"{lead}->{lead}", lambda x, _: arith.truncf(element, x), rows, element=element
        )


class CacheReadOp(Operation, name="cache_read", traits=[ext.Pure]):
    """Columns 0 to `columns - 1` of one layer, sequences `sequence` to `sequence + B - 1`.

    Of cells the result has the values, in f32, of as many channels as it says. B is the size of its
    first dimension where static, else the value `batch`.

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
        at_most("out", "columns", out[2], capacity(self.cache))
        as_wide("out", "its channels", out[3], self.cache)
        if cell_format(self.cache.type):
            element_is("out", self.out, "f32")
            filled("out", self.out)
        else:
            same_element("out", self.out, self.cache)

    def sharding(self) -> ShardingRule:
        """By heads, or by columns."""
        return by_letters(self, cache="..gc.", out=".gc.")

    @staticmethod
    def reference(
        cache: np.ndarray,
        layer: int,
        sequence: int,
        batch: int,
        columns: int,
        outputs: int | None = None,
    ) -> np.ndarray:
        """`[layers, sequences, G, capacity, D]` -> `[B, G, columns, D]`.

        D is `outputs`, where cells have room for more.
        """
        format_ = cells_of(cache)
        rows = rows_of(cache[layer, sequence : sequence + batch])[:, :, :columns]
        return (decode(rows) if format_ is None else format_.decode(rows))[..., :outputs]

    def lower(self) -> ir.Value:
        """A slice, which IREE reads in place, and the values of cells."""
        batch = self.batch if self.out.type.is_dynamic_dim(0) else self.out.type.get_dim_size(0)
        width = self.out.type.shape[3]
        return held(self.cache, self.layer, self.sequence, batch, self.columns, width)


def held(
    cache: ir.Value,
    layer: ir.Value,
    sequence: ir.Value,
    batch: Size,
    columns: Size,
    channels: int,
) -> ir.Value:
    """Rows `[batch, G, columns, channels]`, as `llmc.cache_read` gives them, in linalg."""
    _, _, heads, _, width = cache.type.shape
    place, extents = [layer, sequence, 0, 0, 0], [batch, heads, columns, width]
    format_ = cell_format(cache.type)
    if format_ is None:
        return slice_of(cache, place, [1, *extents], extents)
    cells = [batch, heads, _cells(as_value(columns)), width]
    blocks = take_apart(slice_of(cache, place, [1, *cells], cells))
    rows = dequantize(slice_of(blocks, [0, 0, 0, 0], extents, extents))
    rows = transformed_blocks(rows) if format_.transformed else rows
    return rows if rows.type.shape[3] == channels else slice_of_rows(rows, 0, channels)


def _cells(columns: ir.Value) -> ir.Value:
    """How many cells `columns` take, one behind the other."""
    return arith.ceildivui(columns, index(COLUMNS))
