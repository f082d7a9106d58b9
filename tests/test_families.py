"""Compiled models of every family give PyTorch's logits and PyTorch's greedy tokens."""

from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import GPT2Config, PreTrainedConfig, PreTrainedModel

import llmc.runtime
from llmc.frontend.compile import compile_model
from llmc.frontend.interception import IMPLEMENTATION
from llmc.frontend.options import CompileOptions
from llmc.pipelines.kernels.pair_instructions import PLAIN
from llmc.pipelines.targets.cpu import CPUTarget
from llmc.runtime.errors import UserError
from llmc.runtime.generation import Generation, GenerationOptions, generate_batch
from tests.in_memory import as_loaded
from tests.rounding import narrow_activations, narrow_cache
from tests.tiny_models import FAMILIES, tiny_config, tiny_model

pytestmark = pytest.mark.usefixtures("imported_once")

# One of each kind: grouped heads; two kinds of layers, windows and tied weights; experts.
QUICK = ("llama", "gemma3_text", "qwen3_moe")
# Of which another family has nearly all.
ALIKE = (
    "cohere2",
    "deepseek_v2",
    "ernie4_5",
    "exaone4",
    "gemma",
    "glm4",
    "glm4_moe",
    "gpt_neox",
    "granite",
    "granitemoe",
    "hunyuan_v1_dense",
    "mistral",
    "mixtral",
    "olmo2",
    "olmoe",
    "phi3",
    "qwen2",
    "qwen3",
    "smollm3",
    "stablelm",
)
OTHERS = {*FAMILIES} - {*QUICK, *ALIKE}
# What a family may have beyond the tiny configurations.
VARIATIONS = {
    "llama": {"attention_bias": True, "mlp_bias": True},
    "qwen2": {
        "use_sliding_window": True,
        "sliding_window": 8,
        "layer_types": ["full_attention", "sliding_attention"],
    },
    "stablelm": {"use_qkv_bias": True, "use_parallel_residual": True},
}
# No multiple of what a kernel computes together: panels of packed weights are padded.
VOCAB_SIZE = 269
CONTEXT = 64
PROMPT, CHUNK, STEPS = 20, 5, 16  # the prompt is longer than the window of 8
# Of the logits' spread, from those in float64. PyTorch's in float32 are at 1.2e-5, with sums in
# another order at up to 2.6e-5.
TOLERANCE = 3e-5


@dataclass(frozen=True)
class Pair:
    """One model, compiled and in PyTorch."""

    compiled: llmc.runtime.Model
    torch: PreTrainedModel


def make_pair(family: str, folder: Path, dtype: str = "f32", context: int = CONTEXT) -> Pair:
    """A random model of `family` and its bundle with matrices stored as `dtype`."""
    values = tiny_config(family).to_dict() | VARIATIONS.get(family, {})
    values["vocab_size"] = VOCAB_SIZE
    return compiled_pair(type(tiny_config(family)).from_dict(values), folder, dtype, context)


def compiled_pair(
    config: PreTrainedConfig, folder: Path, dtype: str = "f32", context: int = CONTEXT
) -> Pair:
    """A random model of `config`, as `make_pair` makes it."""
    model = tiny_model(config)
    model.set_attn_implementation("eager")  # the only one that knows soft caps
    compile_model(as_loaded(model), CompileOptions(dtype=dtype, context=context), folder)
    return Pair(llmc.runtime.load(folder), model)


@pytest.fixture(
    scope="module",
    params=[
        *QUICK,
        *(pytest.param(name, marks=pytest.mark.all_families) for name in sorted(OTHERS)),
        *(pytest.param(name, marks=pytest.mark.thorough) for name in ALIKE),
    ],
)
def pair(request, tmp_path_factory):
    return make_pair(request.param, tmp_path_factory.mktemp(request.param) / "bundle")


def random_tokens(count: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(0, VOCAB_SIZE, count).tolist()


@torch.no_grad()
def torch_logits(model: PreTrainedModel, tokens: list[int]) -> np.ndarray:
    """PyTorch's logits `[T, V]` after each token."""
    return model(torch.tensor([tokens]), use_cache=False).logits[0].numpy()


def greedy(pair: Pair, prompt: list[int], count: int) -> list[int]:
    """`prompt` and PyTorch's `count` likeliest tokens after it."""
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(int(torch_logits(pair.torch, tokens)[-1].argmax()))
    return tokens


def continued(pair: Pair, prompts: list[list[int]], new_tokens: int) -> list[Generation]:
    """What the compiled model makes of `prompts` together, without an end of a text."""
    return generate_batch(
        pair.compiled.engine,
        pair.compiled.tokenizer,
        eos=(),
        prompts=prompts,
        context=pair.compiled.manifest.context,
        options=GenerationOptions(max_new_tokens=new_tokens),
    )


def in_float64(model: PreTrainedModel) -> PreTrainedModel:
    """A copy that computes in float64."""
    copy = deepcopy(model).double()
    copy.set_experts_implementation("eager")  # the only one that has a matmul for it
    return copy


def assert_logits(pair: Pair, reference: PreTrainedModel, tolerance: float = TOLERANCE) -> None:
    """Prefill, a second prefill on what is held, then token by token: the reference's logits."""
    tokens = random_tokens(PROMPT + CHUNK + STEPS)
    expected = torch_logits(reference, tokens)
    spread = expected.std()
    assert spread > 0.3, "logits that hardly differ prove nothing"
    engine = pair.compiled.engine
    engine.reset(1, len(tokens))
    held = PROMPT + CHUNK
    found = {
        PROMPT - 1: engine.prefill(tokens[:PROMPT], 0).logits[0],
        held - 1: engine.prefill(tokens[PROMPT:held], PROMPT).logits[0],
    }
    for past in range(held, len(tokens)):
        found[past] = engine.decode(tokens[past : past + 1], past, [0]).logits[0]
    for place, logits in found.items():
        np.testing.assert_allclose(logits, expected[place], rtol=0, atol=tolerance * spread)


def test_logits_are_pytorchs(pair):
    assert_logits(pair, in_float64(pair.torch))


def test_rows_of_no_whole_registers(tmp_path):
    """IREE keeps what it takes the mean and the variance of on the stack."""
    shape = {"n_embd": 200, "n_layer": 1, "n_head": 4, "n_inner": 64}
    config = GPT2Config(**shape, vocab_size=VOCAB_SIZE, eos_token_id=2, pad_token_id=None)
    pair = compiled_pair(config, tmp_path / "bundle")
    assert_logits(pair, in_float64(pair.torch))


def test_batch_continues_each_prompt_as_pytorch_does(pair):
    prompts = [random_tokens(count, seed) for seed, count in enumerate((5, PROMPT, 11))]
    for prompt, result in zip(prompts, continued(pair, prompts, new_tokens=12), strict=True):
        assert prompt + result.token_ids == greedy(pair, prompt, 12)


def test_batch_ends_with_the_context(pair):
    prompts = [random_tokens(count) for count in (CONTEXT - 3, CONTEXT, CONTEXT - 9)]
    results = continued(pair, prompts, new_tokens=10**9)
    for prompt, result in zip(prompts, results, strict=True):
        assert prompt + result.token_ids == greedy(pair, prompt, CONTEXT - len(prompt))
        assert result.finish_reason == "length"


@pytest.mark.parametrize(
    "context", [1, *(pytest.param(few, marks=pytest.mark.thorough) for few in (2, 3))]
)
def test_smallest_contexts(context, tmp_path):
    pair = make_pair("gpt2", tmp_path / "bundle", context=context)
    tokens = random_tokens(context)
    np.testing.assert_allclose(
        pair.compiled.logits(tokens), torch_logits(pair.torch, tokens)[-1], rtol=0, atol=TOLERANCE
    )
    prompts = [random_tokens(1, seed) for seed in range(2)]
    for prompt, result in zip(prompts, continued(pair, prompts, new_tokens=4), strict=True):
        assert prompt + result.token_ids == greedy(pair, prompt, context - 1)
    with pytest.raises(UserError, match=f"context of this bundle is {context}"):
        continued(pair, [random_tokens(context + 1)], new_tokens=1)


@pytest.mark.all_families
@pytest.mark.parametrize(
    ("dtype", "element"),
    [
        ("bf16", torch.bfloat16),
        pytest.param("f16", torch.float16, marks=pytest.mark.thorough),
    ],
)
def test_narrow_storage_rounds_matrices_the_cache_and_pairs_alone(dtype, element, tmp_path):
    pair = make_pair("llama", tmp_path / "bundle", dtype)
    pair.torch.set_attn_implementation(IMPLEMENTATION)
    for weight in pair.torch.parameters():
        if weight.ndim > 1:
            weight.copy_(weight.to(element))
    in_pairs = dtype == "bf16" and CPUTarget().pair_instruction != PLAIN
    head = [pair.torch.get_output_embeddings()]  # which reads one row alone
    activations = narrow_activations(PROMPT + CHUNK, but=head) if in_pairs else nullcontext()
    # A number halfway between two of a narrower type may go to either.
    with narrow_cache(), activations:
        assert_logits(pair, pair.torch, tolerance=5e-4)
