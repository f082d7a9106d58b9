"""The attention kernel gives what PyTorch gives, whatever the shape and the state of the cache.

Of a cache with a part of the columns it also says how much what it gives weighs.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import iree.runtime
import numpy as np
import pytest
import torch
from torch import Tensor
from torch_mlir import ir

from llmc import dialects
from llmc.dialects.blocks import Q8_0
from llmc.pipelines.driver.execution import run
from llmc.pipelines.passes.call_kernels import CallKernels
from llmc.pipelines.passes.store_blocks_as_bytes import StoreBlocksAsBytes
from tests.cpu_code import BYTES, LANES, OF_256_BITS, REGISTERS, compile_for_cpu
from tests.decode_attention import NOTHING
from tests.kv_caches import as_cache, as_stored, floats_of, kept, row_type
from tests.rounding import rounded_query


@dataclass(frozen=True)
class Shape:
    heads: int
    key_heads: int
    channels: int
    value_channels: int
    window: int = 0
    softcap: float = 0.0
    lanes: int = 8
    cache: str = "f32"
    instruction: str = "plain"
    first: int = 0
    step: int = 0  # none: the caches have all columns
    cut: str = ""  # what the operation says of its kernel

    @property
    def function(self) -> str:
        caches = [
            f"tensor<2x?x{self.key_heads}x?x{row_type(n, self.cache, which)}>"
            for n, which in ((self.channels, "keys"), (self.value_channels, "values"))
        ]
        query = f"tensor<1x{self.heads}x?x{self.channels}xf32>"
        out = f"tensor<1x{self.heads}x?x{self.value_channels + (self.step > 0)}xf32>"
        name = "attention_part" if self.step else "cached_attention"
        part = f"first = {self.first} : i64, step = {self.step} : i64," if self.step else ""
        kernel = "byte_attention" if self.cache == "q8_0" else "attention"
        cut = f"llmc.{kernel} = {{{self.cut}}}," if self.cut else ""
        return f"""
          func.func @attend(%q: {query}, %k: {caches[0]}, %v: {caches[1]}, %start: tensor<1xi64>,
                            %layer: index, %sequence: index, %past: index) -> {out} {{
            %o = "llmc.{name}"(%q, %k, %v, %start, %layer, %sequence, %past)
                 {{{part} {cut} scale = 0.25 : f64, window = {self.window} : i64,
                   softcap = {self.softcap} : f64}}
               : ({query}, {caches[0]}, {caches[1]}, tensor<1xi64>, index, index, index) -> {out}
            return %o : {out}
          }}"""


SHAPES = [
    Shape(heads=9, key_heads=3, channels=64, value_channels=64),
    Shape(heads=4, key_heads=4, channels=20, value_channels=12, lanes=16),
    Shape(heads=8, key_heads=1, channels=256, value_channels=256, window=5, lanes=16),
    Shape(heads=6, key_heads=2, channels=16, value_channels=7, window=17, softcap=3.0, lanes=4),
    Shape(heads=2, key_heads=1, channels=48, value_channels=48, cache="f16"),
    Shape(heads=6, key_heads=2, channels=128, value_channels=128, cache="f16", lanes=16),
    Shape(heads=3, key_heads=1, channels=20, value_channels=6, cache="f16", lanes=4),
    Shape(heads=9, key_heads=3, channels=64, value_channels=96, cache="q8_0", lanes=16),
    Shape(9, 3, 64, 96, lanes=LANES, cache="q8_0", instruction=BYTES.name),
    Shape(6, 3, 80, 50, lanes=LANES, cache="q8_0", instruction=BYTES.name),
    Shape(4, 2, 128, 64, 7, 3.0, lanes=LANES, cache="q8_0", instruction=BYTES.name),
    Shape(2, 2, 256, 256, cache="q8_0", instruction=OF_256_BITS),
    Shape(4, 2, 20, 12, window=3, softcap=3.0, first=2, step=4),
    Shape(9, 3, 64, 32, 9, 3.0, LANES, "q8_0", BYTES.name, first=1, step=2),
    Shape(9, 3, 64, 64, cut="vectors = 1, groups = 1"),
    Shape(6, 2, 20, 40, cache="f16", lanes=4, cut="vectors = 3, groups = 5"),
    Shape(2, 1, 96, 80, cut="vectors = 3, groups = 2"),
    Shape(9, 3, 64, 64, window=40, lanes=LANES, cut="vectors = 256, groups = 256"),
    Shape(9, 3, 64, 96, 0, 0.0, LANES, "q8_0", BYTES.name, cut="rows = 7, together = 5"),
    Shape(4, 1, 32, 64, 9, 3.0, 8, "q8_0", OF_256_BITS, cut="rows = 256, together = 8"),
    Shape(8, 2, 64, 32, 0, 0.0, LANES, "q8_0", BYTES.name, 1, 2, cut="rows = 1, together = 2"),
]


@pytest.fixture(
    scope="module",
    params=SHAPES,
    ids=lambda shape: f"{shape.heads}x{shape.channels}_{shape.instruction}_{shape.step}{shape.cut}",
)
def compiled(request):
    return request.param, compile_kernel(request.param)


def compile_kernel(shape: Shape) -> Callable[..., iree.runtime.DeviceArray]:
    context = ir.Context()
    dialects.load(context)
    module = ir.Module.parse(shape.function, context)
    kernels = CallKernels(lanes=shape.lanes, instruction=shape.instruction)
    run((kernels, StoreBlocksAsBytes()), module)
    binary = compile_for_cpu(module)
    return iree.runtime.load_vm_flatbuffer(binary, driver="local-task").attend


def reference(query: Tensor, keys: Tensor, values: Tensor, shape: Shape, start: int, past: int):
    """Attention in float64 over columns that have numbers, and the logarithms of what that weighs.

    The caches have every `step`-th of these. A row that sees none is 0.
    """
    groups, own = shape.heads // shape.key_heads, slice(shape.first, None, shape.step or 1)
    column = torch.arange(keys.shape[1])[None, own]
    keys, values = (t[:, own].double().repeat_interleave(groups, 0) for t in (keys, values))
    scores = query.double() @ keys.mT * 0.25
    if shape.softcap:
        scores = shape.softcap * torch.tanh(scores / shape.softcap)
    row = past + torch.arange(query.shape[1])[:, None]
    seen = (column <= row) & (column >= start)
    if shape.window:
        seen &= column > row - shape.window
    scores = scores.masked_fill(~seen, float("-inf"))
    return (torch.softmax(scores, dim=-1) @ values).nan_to_num(), torch.logsumexp(scores, dim=-1)


@pytest.mark.parametrize(
    ("tokens", "past", "start"),
    [(2, 0, 0), (5, 0, 0), (16, 0, 0), (33, 7, 0), (64, 100, 0), (40, 60, 23), (17, 3, 3)],
)
def test_kernel(compiled, tokens, past, start):
    shape, attend = compiled
    generator = torch.Generator().manual_seed(tokens)
    columns, capacity = past + tokens, past + tokens + 5
    query = torch.randn(1, shape.heads, tokens, shape.channels, generator=generator)
    held, caches = [], []
    for channels, which in ((shape.channels, "keys"), (shape.value_channels, "values")):
        cache = torch.full((2, 3, shape.key_heads, capacity, channels), float("nan"))
        # Only what may be read holds numbers.
        cache[1, 2, :, start:columns].normal_(generator=generator)
        rows = kept(cache.nan_to_num().numpy(), shape.cache, which)
        held.append(torch.tensor(floats_of(rows[1, 2, :, :columns], shape.cache, which)))
        own = rows[:, :, :, shape.first :: shape.step or 1]
        caches.append(as_cache(own, shape.cache, which))
    starts = np.array([start], np.int64)
    out = attend(query.numpy(), *map(as_stored, caches), starts, 1, 2, past).to_host()
    in_bytes = shape.cache == Q8_0.name
    met = rounded_query(query[0].double()) if in_bytes else query[0]
    expected, logarithms = reference(met, *held, shape, start, past)
    found, width = torch.tensor(out[0]).double(), shape.value_channels
    expected = expected[..., :width]
    if shape.step:
        torch.testing.assert_close(
            found[..., width].clamp(min=-NOTHING), logarithms.clamp(min=-NOTHING), atol=2e-5, rtol=0
        )
        found = found[..., :width] * logarithms.isfinite()[..., None]
    # Scores of about 40 are summed in float32; weights of bytes are rounded to a 16383rd of 1.
    tolerance = 1e-3 if in_bytes else 2e-5
    torch.testing.assert_close(found, expected, atol=tolerance, rtol=0)


@pytest.mark.parametrize(("window", "step"), [(0, 0), (100, 0), (100, 3)])
@pytest.mark.parametrize(
    ("cache", "lanes", "instruction"),
    [("f32", LANES, "plain"), *(("q8_0", *registers) for registers in REGISTERS)],
)
def test_a_head_is_the_same_whatever_is_beside_it(cache, lanes, instruction, window, step):
    """On ranks that share a key head, which have some of its query heads, too."""
    shared = Shape(
        6, 2, 64, 64, window, lanes=lanes, cache=cache, instruction=instruction, step=step
    )
    attend, attend_alone = map(compile_kernel, (shared, replace(shared, heads=2)))
    generator = torch.Generator().manual_seed(0)
    for tokens, past, start in ((16, 0, 0), (7, 128, 0), (64, 600, 0), (40, 200, 37)):
        query = 3 * torch.randn(1, 6, tokens, 64, generator=generator)
        rows = torch.randn(2, 2, 3, 2, past + tokens, 64, generator=generator).numpy()
        caches = [
            as_stored(as_cache(kept(row, cache, which), cache, which))
            for row, which in zip(rows, ("keys", "values"), strict=True)
        ]
        places = np.array([start], np.int64), 1, 2, past
        together = attend(query.numpy(), *caches, *places).to_host()
        alone = attend_alone(query[:, ::3].contiguous().numpy(), *caches, *places).to_host()
        np.testing.assert_array_equal(together[:, ::3], alone)
