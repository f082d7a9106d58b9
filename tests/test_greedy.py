"""The sample model's greedy text is PyTorch's, token for token, in float32."""

import pytest
import torch

import llmc.runtime
from llmc.frontend.compile import CompileOptions, compile_model
from llmc.frontend.source import SAMPLE, open_model
from tests.prompts import PROMPTS, QUICK

NEW_TOKENS = 32
CONTEXT = 1024


@pytest.fixture(scope="module")
def source():
    return open_model(SAMPLE)


@pytest.fixture(scope="module")
def compiled(source, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sample") / "bundle"
    compile_model(source, CompileOptions(context=CONTEXT), folder)
    return llmc.runtime.load(folder)


@pytest.fixture(scope="module")
def reference(source):
    model = source.skeleton("sdpa")
    model.load_state_dict(source.weights(), strict=False)
    model.tie_weights()
    return model


@torch.no_grad()
def continue_greedily(model, ids: list[int], eos: tuple[int, ...], count: int) -> list[int]:
    """PyTorch's greedy continuation of `ids`, up to the first end-of-sequence token."""
    out, cache, step = [], None, torch.tensor([ids])
    for _ in range(count):
        result = model(step, past_key_values=cache, use_cache=True, logits_to_keep=1)
        cache = result.past_key_values
        out.append(int(result.logits[0, -1].argmax()))
        if out[-1] in eos:
            break
        step = torch.tensor([out[-1:]])
    return out


@pytest.mark.parametrize(
    ("prompt", "raw"),
    [
        pytest.param(text, raw, id=name, marks=[] if name in QUICK else [pytest.mark.thorough])
        for name, text, raw in PROMPTS
    ],
)
def test_greedy_text_is_pytorchs(compiled, reference, prompt, raw):
    ids = compiled.encode(prompt, raw)
    count = min(NEW_TOKENS, CONTEXT - len(ids))
    expected = continue_greedily(reference, ids, compiled.manifest.tokenizer.eos_token_ids, count)
    assert compiled.generate(prompt, raw, max_new_tokens=count).token_ids == expected
