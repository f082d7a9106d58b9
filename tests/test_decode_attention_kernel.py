"""The kernel of decode attention gives what PyTorch gives, and leaves the cache as it should.

So it does where the cache has a part of the columns, and then says how much that weighs.
"""

from collections.abc import Callable
from dataclasses import replace

import iree.runtime
import numpy as np
import pytest
from torch_mlir import ir

from llmc import dialects
from llmc.pipelines.driver.execution import run
from llmc.pipelines.passes.call_kernels import CallKernels
from llmc.pipelines.passes.store_blocks_as_bytes import StoreBlocksAsBytes
from tests.cpu_code import BYTES, LANES, OF_256_BITS, REGISTERS, compile_for_cpu
from tests.decode_attention import COLUMNS_HELD, Shape, check_attention
from tests.kv_caches import as_cache, as_stored, kept

SHAPES = [
    Shape(heads=9, key_heads=3, channels=64, value_channels=64, rotated=64, lanes=16),
    Shape(heads=4, key_heads=4, channels=80, value_channels=12, rotated=32, batch="?"),
    Shape(heads=8, key_heads=1, channels=256, value_channels=256, rotated=256, window=300),
    Shape(
        6,
        2,
        16,
        7,
        rotated=6,
        window=17,
        softcap=3.0,
        lanes=4,
        batch="?",
        normed=True,
        interleaved=True,
    ),
    Shape(14, 2, 48, 48, cache="f16", lanes=16, normed=True),
    Shape(heads=71, key_heads=1, channels=64, value_channels=64, rotated=64, batch="?"),
    Shape(heads=32, key_heads=32, channels=96, value_channels=96, lanes=16, batch="3"),
    Shape(heads=3, key_heads=3, channels=40, value_channels=24, rotated=16, together=True),
    Shape(9, 3, 64, 64, rotated=64, lanes=LANES, cache="q8_0", instruction=BYTES.name),
    Shape(4, 2, 128, 96, window=300, lanes=LANES, cache="q8_0", instruction=BYTES.name),
    Shape(6, 2, 80, 50, rotated=80, lanes=LANES, cache="q8_0", instruction=BYTES.name, normed=True),
    Shape(3, 3, 40, 24, rotated=16, cache="q8_0", together=True, batch="?", first=1, step=2),
    Shape(5, 1, 32, 64, softcap=3.0, lanes=4, cache="q8_0", batch="?", normed=True),
    Shape(8, 1, 256, 256, rotated=64, cache="q8_0", batch="3", instruction=OF_256_BITS),
    Shape(40, 20, 32, 32, lanes=LANES, cache="q8_0", batch="3", instruction=BYTES.name),
    Shape(9, 3, 64, 64, rotated=64, lanes=16, first=1, step=2, interleaved=True),
    Shape(6, 2, 16, 7, window=17, softcap=3.0, lanes=4, batch="?", normed=True, first=2, step=3),
    Shape(2, 1, 32, 96, cache="q8_0", batch="?", instruction=BYTES.name, first=1, step=2),
    Shape(9, 3, 64, 64, 64, lanes=16, cut="whole = 1, part = 1, together = 1"),
    Shape(6, 2, 16, 24, window=700, batch="?", cut="whole = 1, part = 3, together = 2, cores = 4"),
    Shape(8, 4, 32, 32, cache="f16", batch="3", cut="whole = 1, part = 1, cores = 4"),
    Shape(
        9, 3, 64, 64, cache="q8_0", instruction=BYTES.name, lanes=LANES, cut="whole = 1, part = 1"
    ),
    Shape(4, 2, 64, 32, cache="q8_0", instruction=OF_256_BITS, batch="?", cut="cores = 1"),
    Shape(5, 1, 32, 64, cache="q8_0", first=1, step=2, cut="whole = 1, part = 1, together = 4"),
]


@pytest.fixture(
    scope="module",
    params=SHAPES,
    ids=lambda shape: f"{shape.heads}x{shape.channels}_{shape.cache}_{shape.step}{shape.cut}",
)
def compiled(request):
    return request.param, compile_kernel(request.param)


def compile_kernel(shape: Shape) -> Callable[..., list[np.ndarray]]:
    context = ir.Context()
    dialects.load(context)
    module = ir.Module.parse(shape.function, context)
    kernels = CallKernels(lanes=shape.lanes, instruction=shape.instruction)
    run((kernels, StoreBlocksAsBytes(), "canonicalize"), module)
    binary = compile_for_cpu(module)
    loaded = iree.runtime.load_vm_flatbuffer(binary, driver="local-task")

    def attend(*arguments):
        # Copied, as their memory goes with the results.
        return [result.to_host().copy() for result in loaded.attend(*arguments)]

    return attend


@pytest.mark.parametrize(("past", "starts"), COLUMNS_HELD)
def test_kernel(compiled, past, starts):
    check_attention(*compiled, past, starts)


@pytest.mark.parametrize(("lanes", "instruction"), REGISTERS)
def test_a_head_is_the_same_whatever_is_beside_it(lanes, instruction):
    """On ranks that share a key head, which have some of its query heads, too."""
    shared = Shape(6, 2, 64, 64, lanes=lanes, cache="q8_0", instruction=instruction)
    attend, attend_alone = map(compile_kernel, (shared, replace(shared, heads=2)))
    generator = np.random.default_rng(0)
    for past in (40, 700, 1500):
        query, key, value = (
            generator.standard_normal((1, heads, 64), np.float32) for heads in (6, 2, 2)
        )
        caches = [
            as_stored(as_cache(kept(rows, "q8_0", which), "q8_0", which))
            for rows, which in zip(
                generator.standard_normal((2, 2, 2, 2, past + 1, 64), np.float32),
                ("keys", "values"),
                strict=True,
            )
        ]

        def given(query, key=key, value=value):
            parts = [part.reshape(1, -1) for part in (query, key, value)]
            return np.concatenate([np.zeros((1, 1), np.float32), *parts], axis=1)

        places = np.array([0], np.int64), 1, 1, past
        # Loud queries look at few columns, and each head at others.
        together, *_ = attend(given(4 * query), *caches, *places)
        alone, *_ = attend_alone(given(4 * query[:, ::3]), *caches, *places)
        np.testing.assert_array_equal(together.reshape(6, 64)[::3], alone.reshape(2, 64))
