"""The kernels of attention to a prompt on GPUs give what PyTorch gives, on a Vulkan device."""

import numpy as np
import pytest

from llmc.pipelines.driver.execution import run
from llmc.pipelines.kernels.launch import MARKER
from llmc.pipelines.passes.call_gpu_kernels import CallGPUKernels
from llmc.runtime.gpus import find_gpus
from tests.gpu_code import check_ptx, compile_for, schedules_in
from tests.prompt_attention import Shape, check_attention
from tests.vulkan import load_function

SHAPES = [
    Shape(heads=9, key_heads=3, channels=64, value_channels=64, tokens=32, rotated=64),
    Shape(4, 1, 256, 256, tokens=12, rotated=256, window=100, cache="f16", normed=True),
    Shape(6, 2, 16, 7, tokens=5, batch=3, rotated=6, window=17, softcap=3.0, normed=True),
    Shape(
        2, 2, 40, 136, tokens=33, batch=2, rotated=16, cache="f16", together=True, interleaved=True
    ),
]


def compiled(shape: Shape, name: str, *flags: str) -> bytes:
    """The kernels of `shape` for a target, or what of them the flags ask for."""
    module = shape.module()
    run(("canonicalize,cse", CallGPUKernels(target=name), "canonicalize"), module)
    assert "llmc." not in str(module).replace(MARKER, ""), "the kernels take in all of it"
    return compile_for(module, name, *flags)


@pytest.mark.skipif(
    not find_gpus("vulkan"), reason="no Vulkan device: install libvulkan1 mesa-vulkan-drivers"
)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{shape.heads}x{shape.channels}")
def test_kernels(shape):
    held = np.float16 if shape.cache == "f16" else np.float32
    attend = load_function(compiled(shape, "vulkan"), "attend", [np.float32, held, held])
    for past, starts in [(0, [0, 0, 0]), (3, [0, 3, 1]), (300, [0, 270, 7])]:
        check_attention(shape, attend, past, starts[: shape.batch])
    # Exponentials of such scores are no floats but beside the highest.
    check_attention(shape, attend, 100, [0] * shape.batch, loudness=8.0)


@pytest.mark.parametrize("name", ["cuda:sm_80", "vulkan:baseline"])
def test_they_are_what_other_devices_run(name):
    code = compiled(SHAPES[0], name, "--compile-to=executable-configurations")
    assert schedules_in(code) == ["gpu_append", "gpu_attention"]
    assert compiled(SHAPES[0], name)


@pytest.mark.parametrize("arch", ["sm_80", "sm_89"])
def test_threads_read_128_bits_at_once_and_spill_no_registers(arch):
    code = compiled(SHAPES[0], f"cuda:{arch}")
    check_ptx(code, arch, r"ld\.global\.nc\.v4", r"ld\.shared\.v4")
