"""Bundles on a Vulkan device: Mesa's lavapipe is one, on a CPU."""

import numpy as np
import pytest
import torch

from llmc.dialects.blocks import FORMATS, decode
from llmc.frontend.build import build_bundle
from llmc.frontend.options import CompileOptions
from llmc.runtime import load
from llmc.runtime.gpus import find_gpus
from llmc.runtime.hal_device import gpu_device
from tests.tiny_models import save_tiny_model

pytestmark = pytest.mark.skipif(
    not find_gpus("vulkan"), reason="no Vulkan device: install libvulkan1 mesa-vulkan-drivers"
)

IDS = [7, 44, 281, 90, 13, 200, 5, 61, 119]


@pytest.fixture(autouse=True)
def closed():
    """Lets the device go with the last model on it: open, lavapipe's keeps a core busy."""
    yield
    gpu_device.cache_clear()


@pytest.mark.parametrize(
    ("family", "dtype"),
    [
        ("llama", "f16"),
        ("mixtral", "q4_0"),
        pytest.param("llama", "q5_1", marks=pytest.mark.thorough),
    ],
)
def test_narrow_weights(tmp_path, family, dtype):
    """Against PyTorch with the same weights: what differs is the KV cache, rounded to 11 bits."""
    folder, bundle = tmp_path / "model", tmp_path / "bundle"
    model = save_tiny_model(family, folder)
    build_bundle(str(folder), CompileOptions(target="vulkan", dtype=dtype), bundle)
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1:
            values = parameter.detach().numpy()
            in_blocks = dtype in FORMATS and "embed" not in name and "gate.weight" not in name
            rounded = FORMATS[dtype].encode(values) if in_blocks else values.astype(np.float16)
            parameter.data = torch.from_numpy(decode(rounded).astype(np.float32))
    with torch.no_grad():
        expected = model(torch.tensor([IDS])).logits[0].numpy()
    logits = load(bundle).logits(IDS, every=True)
    np.testing.assert_allclose(logits, expected, atol=1e-2, rtol=0)


@pytest.fixture(scope="module")
def both(tiny_folder, tmp_path_factory):
    """The model in float32, for the CPU and for Vulkan, loaded on each."""
    folder = tmp_path_factory.mktemp("both") / "bundle"
    build_bundle(str(tiny_folder), CompileOptions(target="cpu,vulkan"), folder)
    return [load(folder, device=device) for device in ("cpu", "vulkan")]


def test_logits_are_those_of_the_cpu(both):
    on_cpu, on_vulkan = (model.logits(IDS, every=True) for model in both)
    # Sums in another order, exponentials of another library: float32's rounding of values around 5.
    np.testing.assert_allclose(on_vulkan, on_cpu, atol=5e-5, rtol=0)
    on_cpu, on_vulkan = (model.logits(IDS) for model in both)
    np.testing.assert_allclose(on_vulkan, on_cpu, atol=5e-5, rtol=0)


def test_greedy_tokens_are_those_of_the_cpu(both):
    prompt = "in the land of numbers 12 and 21 there was a thin "
    on_cpu, on_vulkan = (model.generate(prompt, max_new_tokens=24) for model in both)
    assert on_vulkan.token_ids == on_cpu.token_ids


def test_one_step_is_given_to_the_device_at_a_time(both):
    for model, steps in zip(both, (4, 1), strict=True):
        model.engine.reset(1, 8)
        assert len(model.engine.greedy([5], 0, [0], 4)) == steps


def test_sequences_are_decoded_together(both):
    _, on_vulkan = both
    prompts = ["the thin ant", "12", "in the"]
    together = on_vulkan.generate_batch(prompts, max_new_tokens=6)
    alone = [on_vulkan.generate(prompt, max_new_tokens=6) for prompt in prompts]
    assert [result.token_ids for result in together] == [result.token_ids for result in alone]


def test_sampling_draws_the_same(both):
    """The host finds the largest logits, which on the CPU the module finds."""
    options = {"temperature": 0.8, "top_k": 5, "seed": 3, "max_new_tokens": 12}
    on_cpu, on_vulkan = (model.generate("the", **options) for model in both)
    assert on_vulkan.token_ids == on_cpu.token_ids
