"""`llmc.decode_attention_part`: what a rank does with one new token, whose cache is a part."""

from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import ext

from llmc.dialects.attention_part import AttentionPartOp
from llmc.dialects.checks import verified
from llmc.dialects.dealt_columns import DealtColumns, verify_dealt
from llmc.dialects.decode_attention import DecodeAttentionOp, cut_rows, prepared
from llmc.dialects.kv_cache import CacheAppendOp


class DecodeAttentionPartOp(DecodeAttentionOp, name="decode_attention_part"):
    """`llmc.decode_attention` to caches that have columns `first`, `first + step`, ... of all.

    Key and value go behind the columns that the caches have of the first `past`. Where column
    `past` is of other caches, nobody sees them there, and the next take their place. Each head of
    the result is as `llmc.attention_part` has it, E + 1 numbers.

        %o, %new_keys, %new_values = "llmc.decode_attention_part"(%q, %k, %v, %keys, %values,
                                          %start, %layer, %sequence, %past, %cos, %sin)
           {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0>,
            first = 1 : i64, step = 2 : i64, head_stride = 0 : i64, query_offset = 0 : i64,
            key_offset = 0 : i64, value_offset = 0 : i64, key_channels = 64 : i64,
            value_channels = 64 : i64, norm_epsilon = 0.0 : f64, norm_offset = 0.0 : f64,
            interleaved = 0 : i64, scale = 0.125 : f64, window = 0 : i64, softcap = 0.0 : f64}
           : (tensor<1x576xf32>, tensor<1x192xf32>, tensor<1x192xf32>, tensor<30x?x3x?x64xf32>,
              tensor<30x?x3x?x64xf32>, tensor<1xi64>, index, index, index, tensor<1x1x64xf32>,
              tensor<1x1x64xf32>)
           -> (tensor<1x585xf32>, tensor<30x?x3x?x64xf32>, tensor<30x?x3x?x64xf32>)
    """

    first: ir.IntegerAttr = ext.attribute(kw_only=True)
    step: ir.IntegerAttr = ext.attribute(kw_only=True)

    @property
    def row_channels(self) -> int:
        """How many numbers of `out` are of one head, E + 1."""
        return int(self.value_channels.value) + 1

    @verified
    def verify_invariants(self) -> None:
        """Checks what `llmc.decode_attention` does, and which columns there are."""
        self.verify_token()
        verify_dealt(self)

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
        first: int = 0,
        step: int = 1,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows `[B, N]`, caches `[..., capacity, D]` -> `[B, H * (E + 1)]`, caches."""
        rows, offsets = (query, key, value), (query_offset, key_offset, value_offset)
        width = value_channels + 1
        counts = outputs // width, keys.shape[2]
        q, k, v = cut_rows(rows, offsets, counts, (key_channels, value_channels), head_stride)
        norms = None if query_norm is None or key_norm is None else (query_norm, key_norm)
        tables = None if cos is None or sin is None else (cos, sin)
        q, k = prepared(q, k, layer, norms, norm_epsilon, norm_offset, tables, interleaved)
        held = len(range(first, past, step))
        keys = CacheAppendOp.reference(keys, k, layer, sequence, held)
        values = CacheAppendOp.reference(values, v, layer, sequence, held)
        out = AttentionPartOp.reference(
            q,
            keys,
            values,
            start,
            layer,
            sequence,
            past,
            first,
            step,
            scale,
            window,
            softcap,
            width,
        )
        return out.reshape(len(query), outputs), keys, values

    def column(self) -> ir.Value:
        """The column of the caches that the new key and value go to."""
        return DealtColumns.of(self).held(self.past)

    def attention(self, query: ir.Value, caches: list[ir.Value], type_: ir.Type) -> Any:
        """Builds what attends to the `caches` with heads `query`, for a result of `type_`."""
        return AttentionPartOp(
            query,
            *caches,
            self.start,
            self.layer,
            self.sequence,
            self.past,
            self.first,
            self.step,
            self.scale,
            self.window,
            self.softcap,
            type_,
        )
