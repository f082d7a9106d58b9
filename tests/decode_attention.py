"""Decode attention against PyTorch: the cases, and what a compiled function must give."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from llmc.dialects.blocks import Q8_0, format_of
from llmc.dialects.cache_cells import COLUMNS
from tests.kv_caches import as_cache, as_stored, floats_of, kept, row_type, stored_rows
from tests.rotation import turned
from tests.rounding import rounded_query, transformed


@dataclass(frozen=True)
class Shape:
    heads: int
    key_heads: int
    channels: int
    value_channels: int
    rotated: int = 0
    window: int = 0
    softcap: float = 0.0
    lanes: int = 8
    cache: str = "f32"
    batch: str = "1"
    normed: bool = False
    instruction: str = "plain"
    together: bool = False
    interleaved: bool = False
    first: int = 0
    step: int = 0  # none: the caches have all columns
    cut: str = ""  # what the operation says of its kernel

    def held(self, columns: int) -> int:
        """How many of the first `columns` the caches have."""
        return len(range(self.first, columns, self.step or 1))

    @property
    def stride(self) -> int:
        """Channels from one head to the next, where query, key and value of a head lie together."""
        return 2 * self.channels + self.value_channels if self.together else 0

    @property
    def offsets(self) -> list[int]:
        """The first channels of query, key and value in a row of all three."""
        query, key, _ = [self.channels] * 3 if self.together else self.widths
        return [1, 1 + query, 1 + query + key]

    @property
    def widths(self) -> list[int]:
        """Channels of query, key and value in a row of all three."""
        groups = self.key_heads
        return [self.heads * self.channels, groups * self.channels, groups * self.value_channels]

    @property
    def function(self) -> str:
        """One row of all three, of which the first channel is of no use."""
        keys, values = (
            f"tensor<2x?x{self.key_heads}x?x{row_type(n, self.cache, which)}>"
            for n, which in ((self.channels, "keys"), (self.value_channels, "values"))
        )
        row = f"tensor<{self.batch}x{1 + sum(self.widths)}xf32>"
        width = self.value_channels + (self.step > 0)
        out = f"tensor<{self.batch}x{self.heads * width}xf32>"
        name = "decode_attention_part" if self.step else "decode_attention"
        part = f"first = {self.first} : i64, step = {self.step} : i64," if self.step else ""
        starts, table = f"tensor<{self.batch}xi64>", f"tensor<{self.batch}x1x{self.rotated}xf32>"
        tables = f", %cos: {table}, %sin: {table}" if self.rotated else ""
        norm = f"tensor<2x{self.channels}xf32>"
        norms = f", %qn: {norm}, %kn: {norm}" if self.normed else ""
        given = [True] * 9 + [self.rotated > 0] * 2 + [self.normed] * 2
        segments = ", ".join(str(int(each)) for each in given)
        query, key, value = self.offsets
        cut = f"llmc.decode_attention = {{{self.cut}}}," if self.cut else ""
        return f"""
          func.func @attend(%row: {row}, %k: {keys}, %v: {values}, %start: {starts}, %layer: index,
                            %sequence: index, %past: index{tables}{norms})
              -> ({out}, {keys}, {values}) {{
            %o, %nk, %nv = "llmc.{name}"(%row, %row, %row, %k, %v, %start, %layer, %sequence,
                %past{", %cos, %sin" if self.rotated else ""}
                {", %qn, %kn" if self.normed else ""})
                 {{operandSegmentSizes = array<i32: {segments}>, head_stride = {self.stride} : i64,
                   interleaved = {int(self.interleaved)} : i64, {part} {cut}
                   norm_epsilon = 0.01 : f64, norm_offset = 1.0 : f64,
                   query_offset = {query} : i64, key_offset = {key} : i64,
                   value_offset = {value} : i64, key_channels = {self.channels} : i64,
                   value_channels = {self.value_channels} : i64,
                   scale = 0.25 : f64, window = {self.window} : i64,
                   softcap = {self.softcap} : f64}}
               : ({row}, {row}, {row}, {keys}, {values}, {starts}, index, index, index
                  {f", {table}, {table}" if self.rotated else ""}
                  {f", {norm}, {norm}" if self.normed else ""}) -> ({out}, {keys}, {values})
            return %o, %nk, %nv : {out}, {keys}, {values}
          }}"""


# One or two columns, which all have a share of note, several blocks, several parts; of these, some
# before the sequence's start.
COLUMNS_HELD = [(0, [0]), (1, [0, 1, 0]), (70, [0, 70, 3]), (2000, [0, 1900, 70])]


def attention(
    shape: Shape, query: Tensor, keys: Tensor, values: Tensor, start: int, past: int
) -> tuple[Tensor, Tensor]:
    """Heads `[H, D]` in column `past` over columns `[G, S, D]` that are held, and logarithms `[H]`.

    These are of sums of exponentials of scores.
    """
    first = shape.held(max(start, past + 1 - shape.window) if shape.window else start)
    groups = shape.heads // shape.key_heads
    keys, values = (t[:, first:].repeat_interleave(groups, 0) for t in (keys, values))
    scores = (keys @ query[:, :, None])[..., 0] * 0.25
    if shape.softcap:
        scores = shape.softcap * torch.tanh(scores / shape.softcap)
    rows = (torch.softmax(scores, dim=-1)[:, None] @ values)[:, 0]
    return rows, torch.logsumexp(scores, dim=-1)


def heads_of(shape: Shape, row: Tensor) -> list[Tensor]:
    """Query, key and value `[B, H, D]` of a row of all three."""
    channels = (shape.channels, shape.channels, shape.value_channels)
    if shape.together:
        return list(row.unflatten(1, (shape.heads, -1)).split(channels, dim=2))
    parts = zip(row.split(shape.widths, dim=1), channels, strict=True)
    return [part.unflatten(1, (-1, width)) for part, width in parts]


def check_attention(
    shape: Shape,
    attend: Callable[..., list[np.ndarray]],
    past: int,
    starts: list[int],
    integers: type = np.int64,
    loudness: float = 1.0,
) -> None:
    """Runs `attend`, compiled from `shape.function`, after `past` columns.

    `starts` are the first columns of sequences, `integers` what the function takes them as. What is
    new is `loudness` times as large as what is held.
    """
    batch = 3 if shape.batch == "?" else int(shape.batch)
    starts, held = (starts * 3)[:batch], shape.held(past)
    generator = torch.Generator().manual_seed(past)
    row = torch.randn(batch, 1 + sum(shape.widths), generator=generator) * loudness
    row[:, 0] = float("nan")
    angles = torch.randn(batch, 1, shape.rotated, generator=generator)
    tables = [angles.cos(), angles.sin()] if shape.rotated else []
    weights = torch.randn(2, 2, shape.channels, generator=generator)
    norms = list(weights) if shape.normed else []
    caches = []
    capacity = -(-(held + 3) // COLUMNS) * COLUMNS  # so that no cell is filled up with zeros
    for channels, which in ((shape.channels, "keys"), (shape.value_channels, "values")):
        # Only what may be read holds numbers.
        cache = torch.zeros(2, 1 + batch, shape.key_heads, capacity, channels)
        for b, start in enumerate(starts):
            cache[1, 1 + b, :, shape.held(start) : held].normal_(generator=generator)
        cache = kept(cache.numpy(), shape.cache, which)
        for b, start in enumerate(starts):
            forbid(cache[1, 1 + b, :, : shape.held(start)])
        for untouched in (cache[0], cache[1, :1], cache[1, :, :, held:]):
            forbid(untouched)
        caches.append(cache)
    out, *new = attend(
        row.numpy(),
        *(
            as_stored(as_cache(cache, shape.cache, which))
            for cache, which in zip(caches, ("keys", "values"), strict=True)
        ),
        np.array(starts, integers),
        1,
        1,
        past,
        *(t.numpy() for t in [*tables, *norms]),
    )
    out = torch.tensor(out)
    new = [
        stored_rows(each, shape.cache, which)
        for each, which in zip(new, ("keys", "values"), strict=True)
    ]
    query, key, value = (part.double() for part in heads_of(shape, row[:, 1:]))
    if norms:
        query, key = (
            torch.nn.functional.rms_norm(x, x.shape[-1:], 1 + norm[1].double(), 0.01)
            for x, norm in zip((query, key), norms, strict=True)
        )
    if tables:
        cos, sin = (table.double() for table in tables)
        query, key = (turned(x, cos, sin, shape.interleaved) for x in (query, key))
    if shape.cache == Q8_0.name:
        query = rounded_query(query)
    named = list(zip(new, ("keys", "values"), strict=True))
    for cache, rows, (found, which) in zip(caches, (key, value), named, strict=True):
        cache[1, 1:, :, held] = kept(rows.numpy(), shape.cache, which)
        check_cache(found, cache, shape.cache, which)
    tolerance = TOLERANCE[shape.cache] * loudness**3
    for b, start in enumerate(starts):
        end = shape.held(past + 1)
        seen = [
            torch.tensor(floats_of(cache[1, 1 + b], shape.cache, which)[:, :end]).double()
            for cache, which in named
        ]
        expected, logarithms = attention(shape, query[b], *seen, start, past)
        found, width = out[b].view(shape.heads, -1).double(), shape.value_channels
        expected = expected[:, :width]
        error, of_logarithm = (
            roughness(shape, query[b], [cache[1, 1 + b, :, :end] for cache in new], start, past)
            if shape.cache == Q8_0.name and end
            else (torch.zeros(1), torch.zeros(()))
        )
        assert ((found[:, :width] - expected).abs() <= tolerance + error[..., :width]).all()
        if shape.step:
            own, other = (t.clamp(min=-NOTHING) for t in (found[:, width], logarithms))
            assert ((own - other).abs() <= tolerance + of_logarithm).all()


# Of the sum of weights: what a column is read whole for, with room for a guess at sum and weight.
SHARE = 2.0**-6.5 * 4
# The standard deviation of 4 bits that are guessed, in steps of 8 bits, and how many of its own a
# sum of many such errors stays below.
GUESSED, SURE = (255 / 12) ** 0.5, 6


def roughness(
    shape: Shape, query: Tensor, caches: list[np.ndarray], start: int, past: int
) -> tuple[Tensor, Tensor]:
    """How far upper halves of small columns may be off: rows `[H, E]`, and logarithms `[H]`.

    The keys and values, `caches [G, S, K]` in blocks, of columns that have no share of note are
    taken for ones of 4 bits, whose errors are independent.
    """
    first = shape.held(max(start, past + 1 - shape.window) if shape.window else start)
    groups = shape.heads // shape.key_heads
    keys, values = (
        torch.tensor(floats_of(cache, shape.cache, which)[:, first:])
        .double()
        .repeat_interleave(groups, 0)
        for cache, which in zip(caches, ("keys", "values"), strict=True)
    )
    steps = [
        torch.tensor(cache["scale"][:, first:].astype(np.float64))
        .repeat_interleave(groups, 0)
        .repeat_interleave(Q8_0.values, 2)
        for cache in caches
    ]
    scores = (keys @ query[:, :, None])[..., 0] * 0.25
    if shape.softcap:
        scores = shape.softcap * torch.tanh(scores / shape.softcap)
    weights = torch.softmax(scores, dim=-1)
    rough = weights * (weights < SHARE)
    of_score = ((steps[0] * transformed(query)[:, None]) ** 2).sum(-1) * (0.25 * GUESSED) ** 2
    apart = values - (weights[:, None] @ values)
    spread = rough**2 * of_score
    variance = (rough[..., None] * steps[1] * GUESSED) ** 2 + spread[..., None] * apart**2
    # The mean of an exponential is above that of its mean.
    bias = (rough * of_score / 2)[..., None] * apart
    error = SURE * variance.sum(1).sqrt() + bias.sum(1).abs()
    return error, SURE * spread.sum(1).sqrt() + (rough * of_score / 2).sum(1)


# Of which a logarithm is that of no weight at all, be it infinite or not.
NOTHING = 1e9
# Scores of about 40 are summed in float32: more where both factors are loud, as values are. Beside
# blocks, weights are rounded to a 16383rd of 1.
TOLERANCE = {"f32": 3e-5, "f16": 3e-5, "q8_0": 1e-3}


def forbid(cache: np.ndarray) -> None:
    """Puts into `cache` what no result may depend on."""
    if format_of(cache) is None:
        cache[...] = np.nan
    else:
        cache["scale"] = np.nan


def check_cache(found: np.ndarray, expected: np.ndarray, element: str, which: str) -> None:
    """All is as it was, and what was appended is as near as what is rounded can be."""
    # What is halfway between two of 255 steps, but for the last bits of float32, may go to either.
    tolerance = {"f32": 1e-6, "f16": 1e-3, "q8_0": 0.06}[element]
    numbers, wanted = (floats_of(rows, element, which) for rows in (found, expected))
    np.testing.assert_allclose(numbers, wanted, atol=tolerance, rtol=tolerance)
