"""The kernels of decode attention of GPUs give what PyTorch gives, on a Vulkan device."""

import numpy as np
import pytest
from torch_mlir import ir

from llmc import dialects
from llmc.pipelines.driver.execution import run
from llmc.pipelines.passes.call_gpu_kernels import CallGPUKernels
from llmc.runtime.gpus import find_gpus
from tests.decode_attention import COLUMNS_HELD, Shape, check_attention
from tests.gpu_code import check_ptx, compile_for, schedules_in
from tests.vulkan import load_function

SHAPES = [
    Shape(heads=9, key_heads=3, channels=64, value_channels=64, rotated=64),
    Shape(heads=11, key_heads=1, channels=256, value_channels=256, rotated=256, window=300),
    Shape(6, 2, 16, 7, rotated=6, window=17, softcap=3.0, batch="?", normed=True, interleaved=True),
    Shape(4, 2, 48, 48, cache="f16", normed=True),
    Shape(heads=2, key_heads=2, channels=40, value_channels=136, rotated=16, together=True),
]


CASES = pytest.mark.parametrize(
    "shape", SHAPES, ids=lambda shape: f"{shape.heads}x{shape.channels}_{shape.cache}"
)


def compiled(shape: Shape, name: str, *flags: str) -> bytes:
    """The kernels of `shape` for a target, or what of them the flags ask for."""
    context = ir.Context()
    dialects.load(context)
    module = ir.Module.parse(shape.function, context)
    run((CallGPUKernels(target=name), "canonicalize"), module)
    return compile_for(module, name, *flags)


@pytest.mark.skipif(
    not find_gpus("vulkan"), reason="no Vulkan device: install libvulkan1 mesa-vulkan-drivers"
)
@CASES
def test_kernels(shape):
    held = np.float16 if shape.cache == "f16" else np.float32
    attend = load_function(compiled(shape, "vulkan"), "attend", [np.float32, held, held])
    for past, starts in COLUMNS_HELD:
        check_attention(shape, attend, past, starts, np.int32)
    # Exponentials of such scores are no floats but beside the highest.
    check_attention(shape, attend, 600, [0], np.int32, loudness=8.0)


@pytest.mark.parametrize("name", ["cuda:sm_80", "vulkan:baseline"])
def test_they_are_what_other_devices_run(name):
    code = compiled(SHAPES[0], name, "--compile-to=executable-configurations")
    assert schedules_in(code) == ["gpu_decode_attention", "gpu_add_parts"]
    assert compiled(SHAPES[0], name)


@pytest.mark.parametrize("arch", ["sm_80", "sm_89"])
def test_threads_read_128_bits_at_once_and_spill_no_registers(arch):
    code = compiled(SHAPES[0], f"cuda:{arch}")
    check_ptx(code, arch, r"ld\.global\.v4", r"ld\.shared\.v4")
