"""`llmc.decode_attention`: all that attention does with one new token of each sequence."""

from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import ext, tensor

from llmc.dialects.cached_attention import CachedAttentionOp, check_caches
from llmc.dialects.checks import (
    at_most,
    counts,
    filled,
    flag,
    floats,
    like,
    multiple,
    not_negative,
    number,
    require,
    same,
    same_element,
    static,
    tensor_of,
    verified,
)
from llmc.dialects.index_notation import collapse, expand, size, slice_of
from llmc.dialects.kv_cache import CacheAppendOp, as_wide
from llmc.dialects.llmc import Operation
from llmc.dialects.rms_norm import RMSNormOp
from llmc.dialects.rotary import RotaryOp


class DecodeAttentionOp(Operation, name="decode_attention", traits=[ext.Pure]):
    """Appends each sequence's key and value to one layer of a KV cache, and attends to the cache.

    The caches are `[layers, sequences, G, capacity, D or E]`, or cells of these; row b is of
    sequence `sequence + b`, and goes to column `past`. `query`, `key` and `value` are rows `[B, N]`
    of linear layers, of which H heads of D, G of D and G of E channels count, from `query_offset`,
    `key_offset` and `value_offset` on: all three may be one tensor. D is `key_channels`, E is
    `value_channels`. From one head to the next it is `head_stride` channels, or 0 where nothing
    lies between. Each head of queries and of keys is normalised as `llmc.rms_norm` says, by row
    `layer` of `query_norm` and `key_norm [layers, D]`, where they are given; without them
    `norm_epsilon` and `norm_offset` say nothing. `cos` and `sin [B or 1, 1, R]` then turn queries
    and keys, `interleaved` or not, as `llmc.rotary` says; without them it is 0. What a row sees,
    and the other attributes, are as in `llmc.attention`.

        %o, %new_keys, %new_values = "llmc.decode_attention"(%q, %k, %v, %keys, %values, %start,
                                                             %layer, %sequence, %past, %cos, %sin)
           {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0>,
            head_stride = 0 : i64, query_offset = 0 : i64, key_offset = 0 : i64,
            value_offset = 0 : i64, key_channels = 64 : i64, value_channels = 64 : i64,
            norm_epsilon = 0.0 : f64, norm_offset = 0.0 : f64, interleaved = 0 : i64,
            scale = 0.125 : f64, window = 0 : i64, softcap = 0.0 : f64}
           : (tensor<1x576xf32>, tensor<1x192xf32>, tensor<1x192xf32>, tensor<30x?x3x?x64xf32>,
              tensor<30x?x3x?x64xf32>, tensor<1xi64>, index, index, index, tensor<1x1x64xf32>,
              tensor<1x1x64xf32>)
           -> (tensor<1x576xf32>, tensor<30x?x3x?x64xf32>, tensor<30x?x3x?x64xf32>)
    """

    query: ext.Operand[Any]
    key: ext.Operand[Any]
    value: ext.Operand[Any]
    keys: ext.Operand[Any]
    values: ext.Operand[Any]
    start: ext.Operand[Any]
    layer: ext.Operand[ir.IndexType]
    sequence: ext.Operand[ir.IndexType]
    past: ext.Operand[ir.IndexType]
    head_stride: ir.IntegerAttr
    query_offset: ir.IntegerAttr
    key_offset: ir.IntegerAttr
    value_offset: ir.IntegerAttr
    key_channels: ir.IntegerAttr
    value_channels: ir.IntegerAttr
    norm_epsilon: ir.FloatAttr
    norm_offset: ir.FloatAttr
    interleaved: ir.IntegerAttr
    scale: ir.FloatAttr
    window: ir.IntegerAttr
    softcap: ir.FloatAttr
    out: ext.Result[Any]
    new_keys: ext.Result[Any]
    new_values: ext.Result[Any]
    cos: ext.Operand[Any] | None = None
    sin: ext.Operand[Any] | None = None
    query_norm: ext.Operand[Any] | None = None
    key_norm: ext.Operand[Any] | None = None

    @property
    def heads(self) -> int:
        """The number of query heads, H."""
        return int(self.out.type.shape[1] // self.row_channels)

    @property
    def tables(self) -> list[ir.Value]:
        """`cos` and `sin`, if they are given."""
        return [table for table in (self.cos, self.sin) if table is not None]

    @property
    def norms(self) -> list[ir.Value]:
        """`query_norm` and `key_norm`, if they are given."""
        return [norm for norm in (self.query_norm, self.key_norm) if norm is not None]

    @property
    def row_channels(self) -> int:
        """How many numbers of `out` are of one head, E."""
        return int(self.value_channels.value)

    @verified
    def verify_invariants(self) -> None:
        """Checks the caches against one another, and that the rows have room for the heads."""
        self.verify_token()

    def verify_token(self) -> None:
        """Raises MismatchError where `verify_invariants` finds fault."""
        batch = tensor_of(self.query, "query", 2)[0]
        floats("query", self.query)
        check_caches(self, batch)
        rows, width = tensor_of(self.out, "out", 2)
        same("out", "its batch", rows, batch)
        same_element("out", self.out, self.query)
        static("out", self.out, 1)
        filled("out", self.out, 1)
        groups = self.keys.type.shape[2]
        of_key, of_value = self.key_channels.value, self.value_channels.value
        as_wide("key_channels", "a value", of_key, self.keys)
        as_wide("value_channels", "a value", of_value, self.values)
        multiple("out", "its channels", width, groups * self.row_channels)
        counts("head_stride", self.head_stride, least=0)
        self._verify_row("query", self.query, self.query_offset, self.heads, of_key)
        self._verify_row("key", self.key, self.key_offset, groups, of_key)
        self._verify_row("value", self.value, self.value_offset, groups, of_value)
        for name, new, old in (
            ("new_keys", self.new_keys, self.keys),
            ("new_values", self.new_values, self.values),
        ):
            like(name, new, name.removeprefix("new_"), old)
        self._verify_tables(batch)
        self._verify_norms()

    def _verify_row(
        self, name: str, row: ir.Value, offset: ir.IntegerAttr, heads: int, of_head: int
    ) -> None:
        stride = self.head_stride.value
        fault = f"must be 0 or {of_head} at least, as many as a head has, but is {stride}"
        require(stride == 0 or stride >= of_head, fault, "head_stride")
        count = (heads - 1) * (stride or of_head) + of_head
        batch, width = tensor_of(row, name, 2)
        same(name, "its batch", batch, tensor_of(self.query, "query")[0])
        same_element(name, row, self.query)
        static(name, row, 1)
        filled(name, row)
        fault = f"must have {count} channels from {offset.value} on, but has {width} in all"
        require(0 <= offset.value <= width - count, fault, name)

    def _verify_tables(self, batch: int | None) -> None:
        is_alone = (self.cos is None) != (self.sin is None)
        require(not is_alone, "must go together with 'sin'", "cos")
        flag("interleaved", self.interleaved)
        if self.cos is None or self.sin is None:
            require(self.interleaved.value == 0, "must be 0 without 'cos'", "interleaved")
            return
        rows, columns, rotated = tensor_of(self.cos, "cos", 3)
        if rows != 1:
            same("cos", "its batch", rows, batch)
        same("cos", "its tokens", columns, 1)
        same_element("cos", self.cos, self.query)
        static("cos", self.cos, 2)
        filled("cos", self.cos, 2)
        multiple("cos", "its last dimension", rotated, 2)
        at_most("cos", "a last dimension", rotated, self.key_channels.value)
        like("sin", self.sin, "cos", self.cos)

    def _verify_norms(self) -> None:
        is_alone = (self.query_norm is None) != (self.key_norm is None)
        require(not is_alone, "must go together with 'key_norm'", "query_norm")
        not_negative("norm_epsilon", self.norm_epsilon, self.query)
        number("norm_offset", self.norm_offset, self.query)
        layers = self.keys.type.shape[0]
        for name, norm in (("query_norm", self.query_norm), ("key_norm", self.key_norm)):
            if norm is not None:
                rows, width = tensor_of(norm, name, 2)
                same(name, "its layers", rows, layers)
                same(name, "its length", width, self.key_channels.value)
                static(name, norm, 1)
                same_element(name, norm, self.query)

    @staticmethod
    def reference(
        query: np.ndarray,
        key: np.ndarray,
        value: np.ndarray,
        keys: np.ndarray,
        values: np.ndarray,
        start: np.ndarray,
        layer: int,
        sequence: int,
        past: int,
        query_offset: int,
        key_offset: int,
        value_offset: int,
        key_channels: int,
        value_channels: int,
        scale: float,
        outputs: int,
        window: int = 0,
        softcap: float = 0.0,
        cos: np.ndarray | None = None,
        sin: np.ndarray | None = None,
        query_norm: np.ndarray | None = None,
        key_norm: np.ndarray | None = None,
        norm_epsilon: float = 0.0,
        norm_offset: float = 0.0,
        head_stride: int = 0,
        interleaved: int = 0,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows `[B, N]`, caches `[layers, sequences, G, capacity, D]` -> `[B, H * E]`, caches."""
        rows, offsets = (query, key, value), (query_offset, key_offset, value_offset)
        counts = outputs // value_channels, keys.shape[2]
        q, k, v = cut_rows(rows, offsets, counts, (key_channels, value_channels), head_stride)
        norms = None if query_norm is None or key_norm is None else (query_norm, key_norm)
        tables = None if cos is None or sin is None else (cos, sin)
        q, k = prepared(q, k, layer, norms, norm_epsilon, norm_offset, tables, interleaved)
        keys = CacheAppendOp.reference(keys, k, layer, sequence, past)
        values = CacheAppendOp.reference(values, v, layer, sequence, past)
        out = CachedAttentionOp.reference(
            q, keys, values, start, layer, sequence, past, scale, window, softcap, value_channels
        )
        return out.reshape(len(query), outputs), keys, values

    def lower(self) -> list[ir.Value]:
        """The operations that it stands for, as they are without it."""
        groups, of_key, of_value = (
            self.keys.type.shape[2],
            self.key_channels.value,
            self.value_channels.value,
        )
        query = self._heads(self.query, self.query_offset.value, self.heads, of_key)
        key = self._heads(self.key, self.key_offset.value, groups, of_key)
        value = self._heads(self.value, self.value_offset.value, groups, of_value)
        if self.query_norm is not None:
            query = self._normed(query, self.query_norm)
            key = self._normed(key, self.key_norm)
        if self.cos is not None:
            query, key = self._turned(query), self._turned(key)
        column = self.column()
        new = [
            _lowered(CacheAppendOp(cache, rows, self.layer, self.sequence, column, cache.type))
            for cache, rows in ((self.keys, key), (self.values, value))
        ]
        batch, heads, _, _ = query.type.shape
        extents = [batch, heads, 1, self.row_channels]
        type_ = ir.RankedTensorType.get(extents, query.type.element_type)
        return [collapse(_lowered(self.attention(query, new, type_)), [1, 3]), *new]

    def column(self) -> ir.Value:
        """The column of the caches that the new key and value go to."""
        return self.past

    def attention(self, query: ir.Value, caches: list[ir.Value], type_: ir.Type) -> Any:
        """Builds what attends to the `caches` with heads `query`, for a result of `type_`."""
        return CachedAttentionOp(
            query,
            *caches,
            self.start,
            self.layer,
            self.sequence,
            self.past,
            self.scale,
            self.window,
            self.softcap,
            type_,
        )

    def _heads(self, row: ir.Value, offset: int, heads: int, width: int) -> ir.Value:
        batch, stride = size(row, 0), self.head_stride.value
        if not stride:
            extents = [batch, heads * width]
            part = slice_of(row, [0, offset], extents, extents)
            return expand(part, [[batch], [heads, 1, width]])
        starts = range(offset, offset + heads * stride, stride)
        extents, head = [batch, width], [[batch], [1, 1, width]]
        parts = [expand(slice_of(row, [0, at], extents, extents), head) for at in starts]
        shape = [row.type.shape[0], heads, 1, width]
        return tensor.concat(ir.RankedTensorType.get(shape, row.type.element_type), 1, parts)

    def _normed(self, rows: ir.Value, stack: ir.Value) -> ir.Value:
        _, width = stack.type.shape
        own = slice_of(stack, [self.layer, 0], [1, width], [width])
        norm = RMSNormOp(rows, self.norm_epsilon, self.norm_offset, rows.type, weight=own)
        return _lowered(norm)

    def _turned(self, rows: ir.Value) -> ir.Value:
        return _lowered(RotaryOp(rows, self.cos, self.sin, self.interleaved, rows.type))


def cut_rows(
    rows: tuple[np.ndarray, ...],
    offsets: tuple[int, ...],
    counts: tuple[int, int],
    channels: tuple[int, int],
    head_stride: int,
) -> list[np.ndarray]:
    """Heads `[B, H or G, 1, D or E]` of rows `[B, N]` for queries, keys and values.

    `counts` are H and G, `channels` D and E.
    """
    heads, groups = counts
    of_key, of_value = channels

    def cut(row: np.ndarray, offset: int, count: int, width: int) -> np.ndarray:
        stride = head_stride or width
        starts = range(offset, offset + count * stride, stride)
        return np.stack([row[:, None, at : at + width] for at in starts], axis=1)

    extents = (heads, of_key), (groups, of_key), (groups, of_value)
    return [
        cut(row, offset, *each) for row, offset, each in zip(rows, offsets, extents, strict=True)
    ]


def prepared(
    query: np.ndarray,
    key: np.ndarray,
    layer: int,
    norms: tuple[np.ndarray, np.ndarray] | None,
    epsilon: float,
    offset: float,
    tables: tuple[np.ndarray, np.ndarray] | None,
    interleaved: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Heads of queries and keys, normalised by `norms [L, D]` and turned by `tables`, if any."""
    if norms is not None:
        query, key = (
            RMSNormOp.reference(heads, weight[layer], epsilon, offset)
            for heads, weight in zip((query, key), norms, strict=True)
        )
    if tables is not None:
        query, key = (RotaryOp.reference(heads, *tables, interleaved) for heads in (query, key))
    return query, key


def _lowered(op: Any) -> ir.Value:
    """What `op`, which nobody uses, means."""
    value = op.lower()
    op.operation.erase()
    return value
