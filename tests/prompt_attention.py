"""Attention to the tokens of a prompt: the graph, and what PyTorch makes of the same numbers."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch_mlir import ir
from torch_mlir.dialects import arith, func, linalg, tensor
from torch_mlir.extras import types as T

from llmc import dialects
from llmc.dialects import AttentionOp, CacheAppendOp, CacheReadOp, RMSNormOp, RotaryOp
from llmc.dialects.attributes import f64, i64
from llmc.dialects.index_notation import expand, index, slice_of
from tests.rotation import turned

SCALE, EPSILON, OFFSET = 0.25, 0.01, 1.0
LAYERS = 2


@dataclass(frozen=True)
class Shape:
    """Attention to `tokens` of each of `batch` sequences; rows `[B, T, N]` are cut into heads.

    The first number of a row is of no use. Heads are normed where `normed`, then the first
    `rotated` channels turned, `interleaved` or not. Where `together`, query, key and value of a
    head lie together.
    """

    heads: int
    key_heads: int
    channels: int
    value_channels: int
    tokens: int
    batch: int = 1
    rotated: int = 0
    window: int = 0
    softcap: float = 0.0
    cache: str = "f32"
    normed: bool = False
    together: bool = False
    interleaved: bool = False

    @property
    def counts(self) -> list[int]:
        """Heads of query, key and value."""
        return [self.heads, self.key_heads, self.key_heads]

    @property
    def widths(self) -> list[int]:
        """Channels of a head of each."""
        return [self.channels, self.channels, self.value_channels]

    @property
    def row(self) -> int:
        """Numbers of a row."""
        return 1 + sum(count * width for count, width in zip(self.counts, self.widths, strict=True))

    def module(self) -> ir.Module:
        """`@attend(rows, keys, values, start, layer, sequence, past, cos, sin, norm of query and of
        key)`: heads `[B, H, T, E]` and new caches."""
        context = ir.Context()
        dialects.load(context)
        with context, ir.Location.unknown():
            module = ir.Module.create()
            with ir.InsertionPoint(module.body):
                func.FuncOp.from_py_func(*self._types, name="attend")(self._attend)
        return module

    @property
    def _types(self) -> list[ir.Type]:
        f32, i64_, place = T.f32(), T.i64(), T.index()
        unknown, of = ir.ShapedType.get_dynamic_size(), ir.RankedTensorType.get
        held = ir.Type.parse(self.cache)
        caches = [
            of([LAYERS, unknown, self.key_heads, unknown, width], held) for width in self.widths[1:]
        ]
        table, norm = of([1, self.tokens, self.rotated], f32), of([LAYERS, self.channels], f32)
        rows, start = of([self.batch, self.tokens, self.row], f32), of([self.batch], i64_)
        return [rows, *caches, start, place, place, place, table, table, norm, norm]

    def _attend(
        self,
        rows: ir.Value,
        keys: ir.Value,
        values: ir.Value,
        start: ir.Value,
        layer: ir.Value,
        sequence: ir.Value,
        past: ir.Value,
        cos: ir.Value,
        sin: ir.Value,
        query_norm: ir.Value,
        key_norm: ir.Value,
    ) -> list[ir.Value]:
        query, key, value = self._cut_together(rows) if self.together else self._cut(rows)
        if self.normed:
            query, key = _normed(query, query_norm, layer), _normed(key, key_norm, layer)
        query, key, value = map(_transposed, (query, key, value))
        if self.rotated:
            way = i64(int(self.interleaved))
            query, key = (RotaryOp(x, cos, sin, way, x.type).out for x in (query, key))
        columns = arith.addi(past, index(self.tokens))
        held = []
        for cache, new in ((keys, key), (values, value)):
            cache = CacheAppendOp(cache, new, layer, sequence, past, cache.type).out
            held.append(self._read(cache, layer, sequence, columns))
        extents = [self.batch, self.heads, self.tokens, self.value_channels]
        attention = AttentionOp(
            query,
            *held,
            f64(SCALE),
            i64(self.window),
            f64(self.softcap),
            ir.RankedTensorType.get(extents, T.f32()),
            past=past,
            start=start,
        )
        return [attention.out, *(read.owner.opview.cache for read in held)]

    def _read(
        self, cache: ir.Value, layer: ir.Value, sequence: ir.Value, columns: ir.Value
    ) -> ir.Value:
        unknown = ir.ShapedType.get_dynamic_size()
        extents = [self.batch, self.key_heads, unknown, cache.type.shape[4]]
        type_ = ir.RankedTensorType.get(extents, cache.type.element_type)
        return CacheReadOp(cache, layer, sequence, index(self.batch), columns, type_).out

    def _cut(self, rows: ir.Value) -> list[ir.Value]:
        """Tokens of heads `[B, T, H, D]`."""
        offset, found = 1, []
        for count, width in zip(self.counts, self.widths, strict=True):
            extents = [self.batch, self.tokens, count * width]
            part = slice_of(rows, [0, 0, offset], extents, extents)
            found.append(expand(part, [[self.batch], [self.tokens], [count, width]]))
            offset += count * width
        return found

    def _cut_together(self, rows: ir.Value) -> list[ir.Value]:
        together = Shape(self.heads, 0, sum(self.widths), 0, self.tokens, self.batch)
        wide, offset, found = together._cut(rows)[0], 0, []
        for width in self.widths:
            extents = [self.batch, self.tokens, self.heads, width]
            found.append(slice_of(wide, [0, 0, 0, offset], extents, extents))
            offset += width
        return found

    def split(self, rows: Tensor) -> list[Tensor]:
        """Heads `[B, H, T, D]` of query, key and value."""
        if self.together:
            parts = rows[..., 1:].unflatten(2, (self.heads, -1)).split(self.widths, dim=3)
        else:
            sizes = [count * width for count, width in zip(self.counts, self.widths, strict=True)]
            cut = zip(rows[..., 1:].split(sizes, dim=2), self.widths, strict=True)
            parts = [part.unflatten(2, (-1, width)) for part, width in cut]
        return [part.transpose(1, 2) for part in parts]


def _normed(heads: ir.Value, weights: ir.Value, layer: ir.Value) -> ir.Value:
    width = weights.type.shape[1]
    own = slice_of(weights, [layer, 0], [1, width], [width])
    return RMSNormOp(heads, f64(EPSILON), f64(OFFSET), heads.type, weight=own).out


def _transposed(tokens: ir.Value) -> ir.Value:
    batch, count, heads, width = tokens.type.shape
    room = tensor.empty([batch, heads, count, width], tokens.type.element_type)
    return linalg.transpose(tokens, outs=[room], permutation=[0, 2, 1, 3]).results[0]


def attention(
    shape: Shape, query: Tensor, keys: Tensor, values: Tensor, start: int, past: int
) -> Tensor:
    """Heads `[H, T, D]` over columns `[G, S, D]`, the first query being in column `past`."""
    sharing = shape.heads // shape.key_heads
    keys, values = (held.repeat_interleave(sharing, 0) for held in (keys, values))
    scores = query @ keys.mT * SCALE
    if shape.softcap:
        scores = shape.softcap * torch.tanh(scores / shape.softcap)
    row, column = past + torch.arange(shape.tokens)[:, None], torch.arange(keys.shape[1])
    seen = (column <= row) & (column >= start)
    if shape.window:
        seen &= column > row - shape.window
    return torch.softmax(scores.masked_fill(~seen, float("-inf")), dim=-1) @ values


def check_attention(
    shape: Shape,
    attend: Callable[..., list[np.ndarray]],
    past: int,
    starts: list[int],
    loudness: float = 1.0,
) -> None:
    """Runs `attend`, compiled from the module, where `past` columns are held from `starts` on.

    What is new is `loudness` times as large as what is held.
    """
    generator = torch.Generator().manual_seed(past)
    rows = torch.randn(shape.batch, shape.tokens, shape.row, generator=generator) * loudness
    rows[..., 0] = float("nan")
    cos, sin = torch.randn(2, 1, shape.tokens, shape.rotated, generator=generator)
    norms = torch.randn(2, LAYERS, shape.channels, generator=generator)
    held = {"f32": torch.float32, "f16": torch.float16}[shape.cache]
    caches, columns = [], past + shape.tokens
    for width in shape.widths[1:]:
        extents = LAYERS, 1 + shape.batch, shape.key_heads, columns + 3, width
        cache = torch.full(extents, float("nan"), dtype=held)
        # Only what may be read holds numbers.
        for b, start in enumerate(starts):
            cache[1, 1 + b, :, start:past].normal_(generator=generator)
        caches.append(cache)
    given = [rows, *caches, torch.tensor(starts, dtype=torch.int32)]
    given = [*(x.numpy() for x in given), 1, 1, past, *(x.numpy() for x in (cos, sin, *norms))]
    out, *new = map(torch.tensor, attend(*given))

    query, key, value = (part.double() for part in shape.split(rows))
    if shape.normed:
        query, key = (
            torch.nn.functional.rms_norm(x, x.shape[-1:], OFFSET + norm[1].double(), EPSILON)
            for x, norm in zip((query, key), norms, strict=True)
        )
    if shape.rotated:
        tables = cos[0].double(), sin[0].double()
        query, key = (turned(x, *tables, shape.interleaved) for x in (query, key))
    for cache, part, found in zip(caches, (key, value), new, strict=True):
        cache[1, 1:, :, past:columns] = part
        rounding = 1e-6 if shape.cache == "f32" else 1e-3
        torch.testing.assert_close(found, cache, atol=rounding, rtol=rounding, equal_nan=True)
    for b, start in enumerate(starts):
        seen = (cache[1, 1 + b, :, :columns].nan_to_num().double() for cache in new)
        expected = attention(shape, query[b], *seen, start, past)
        # Scores of about 40 are summed in float32: more where both factors are loud, as values are.
        torch.testing.assert_close(out[b].double(), expected, atol=3e-5 * loudness**3, rtol=0)
