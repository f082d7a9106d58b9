"""The kernel of decode attention gives what PyTorch gives, and leaves the cache as it should.

So it does where the cache has a part of the columns, and then says how much that weighs.
"""

import iree.runtime
import pytest
from torch_mlir import ir

from llmc import dialects
from llmc.pipelines.driver.execution import run
from llmc.pipelines.passes.call_kernels import CallKernels
from llmc.pipelines.passes.store_blocks_as_bytes import StoreBlocksAsBytes
from tests.cpu_code import BYTES, LANES, OF_256_BITS, compile_for_cpu
from tests.decode_attention import COLUMNS_HELD, Shape, check_attention

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
    Shape(9, 3, 64, 64, rotated=64, lanes=LANES, cache="q8_0", instruction=BYTES.instruction),
    Shape(4, 2, 128, 96, window=300, lanes=LANES, cache="q8_0", instruction=BYTES.instruction),
    Shape(5, 1, 32, 64, softcap=3.0, lanes=4, cache="q8_0", batch="?", normed=True),
    Shape(8, 1, 256, 256, rotated=64, cache="q8_0", batch="3", instruction=OF_256_BITS),
    Shape(9, 3, 64, 64, rotated=64, lanes=16, first=1, step=2, interleaved=True),
    Shape(6, 2, 16, 7, window=17, softcap=3.0, lanes=4, batch="?", normed=True, first=2, step=3),
    Shape(2, 1, 32, 96, cache="q8_0", batch="?", instruction=BYTES.instruction, first=1, step=2),
]


@pytest.fixture(
    scope="module",
    params=SHAPES,
    ids=lambda shape: f"{shape.heads}x{shape.channels}_{shape.cache}_{shape.step}",
)
def compiled(request):
    context = ir.Context()
    dialects.load(context)
    module = ir.Module.parse(request.param.function, context)
    kernels = CallKernels(lanes=request.param.lanes, instruction=request.param.instruction)
    run((kernels, StoreBlocksAsBytes(), "canonicalize"), module)
    binary = compile_for_cpu(module)
    loaded = iree.runtime.load_vm_flatbuffer(binary, driver="local-task")

    def attend(*arguments):
        # Copied, as their memory goes with the results.
        return [result.to_host().copy() for result in loaded.attend(*arguments)]

    return request.param, attend


@pytest.mark.parametrize(("past", "starts"), COLUMNS_HELD)
def test_kernel(compiled, past, starts):
    check_attention(*compiled, past, starts)
