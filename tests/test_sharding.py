"""A model that is split among ranks says what it says on one device."""

from pathlib import Path

import numpy as np
import pytest
from torch_mlir import ir
from transformers import PreTrainedModel

import llmc.runtime
from llmc.frontend.compile import compile_model
from llmc.frontend.options import CompileOptions
from llmc.pipelines.sharding.traffic import traffic
from llmc.runtime.engine import PREFILL_CHUNK
from llmc.runtime.errors import UserError
from llmc.runtime.manifest import Manifest
from tests.in_memory import as_loaded
from tests.programs.stages import new_context
from tests.test_families import TOLERANCE, VARIATIONS, VOCAB_SIZE, random_tokens, torch_logits
from tests.tiny_models import tiny_config, tiny_model

pytestmark = pytest.mark.usefixtures("imported_once")

PROMPT, STEPS = 20, 8
CONTEXT = PREFILL_CHUNK + PROMPT
# Two groups of two heads among three ranks, and a vocabulary that does not divide; a cache whose
# columns are dealt out; experts; stages.
QUICK = [
    ("llama", "tp=3"),
    ("llama", "sp=2"),
    ("qwen3_moe", "ep=2"),
    ("llama", "pp=2"),
]
# Two kinds of layers; experts and heads; biases, and queries, keys and values at once; weights of
# gates and inputs at once; other families.
OTHERS = [
    ("gemma3_text", "pp=2"),
    ("qwen3_moe", "ep=2,tp=2"),
    ("gpt2", "tp=2"),
    ("gemma3_text", "sp=3"),
    ("qwen2", "sp=2,tp=2"),
    ("phi3", "pp=2,tp=2"),
    ("gpt_neox", "tp=2"),
    ("olmo2", "tp=2"),
    ("mixtral", "tp=4"),
    ("deepseek_v3", "ep=2,tp=2"),
]
OVERLAPPED = {"gpt2", "qwen3_moe", "gpt_neox", "mixtral"}


def make(family: str, **changes: int):
    values = tiny_config(family).to_dict() | VARIATIONS.get(family, {}) | changes
    values |= {"vocab_size": VOCAB_SIZE, "max_position_embeddings": CONTEXT}
    model = tiny_model(type(tiny_config(family)).from_dict(values))
    model.set_attn_implementation("eager")  # the only one that knows soft caps
    return model


@pytest.mark.parametrize(
    ("family", "grid"),
    [*QUICK, *(pytest.param(*each, marks=pytest.mark.thorough) for each in OTHERS)],
)
def test_ranks_compute_pytorchs_logits(family, grid, tmp_path):
    model = make(family)
    bundle, stages = tmp_path / "bundle", tmp_path / "stages"
    options = CompileOptions(context=CONTEXT, grid=grid, overlap=family in OVERLAPPED)
    compile_model(as_loaded(model), options, bundle, dump_ir=stages)
    ranks = llmc.runtime.load(bundle, threads=1, local=True)
    tokens = random_tokens(PROMPT)
    expected = torch_logits(model, tokens)
    bound = TOLERANCE * expected.std()
    np.testing.assert_allclose(ranks.logits(tokens, every=True), expected, rtol=0, atol=bound)
    np.testing.assert_allclose(ranks.logits(tokens), expected[-1], rtol=0, atol=bound)
    several_pieces = random_tokens(CONTEXT)
    np.testing.assert_allclose(
        ranks.logits(several_pieces),
        torch_logits(model, several_pieces)[-1],
        rtol=0,
        atol=bound,
    )
    check_batch(ranks, model)
    for _ in range(STEPS):
        tokens.append(int(torch_logits(model, tokens)[-1].argmax()))
    ranks.engine.reset(1, PROMPT + STEPS)
    steps = ranks.engine.prefill(tokens[:PROMPT], 0).best
    for past in range(PROMPT, PROMPT + STEPS - 1):
        steps += ranks.engine.decode([steps[-1]], past, [0]).best
    assert steps == tokens[PROMPT:]
    (state,) = (stages / "rank0").glob("*-state.mlir")
    before = ranks.communicator.moved
    ranks.engine.decode([steps[-1]], PROMPT + STEPS - 1, [0])
    predicted = traffic(ir.Module.parse(state.read_text(), new_context()))["decode"]
    assert ranks.communicator.moved - before == predicted


def check_batch(ranks: llmc.runtime.Model, model: PreTrainedModel) -> None:
    """Two sequences, of which the second begins later, are run together for two tokens."""
    prompts = random_tokens(2 * PROMPT)[:PROMPT], random_tokens(7)
    starts = [0, PROMPT - 7]
    ranks.engine.reset(2, PROMPT + 2)
    padded = [[prompt[0]] * start + prompt for prompt, start in zip(prompts, starts, strict=True)]
    found = ranks.engine.prefill_batch(padded, starts)
    for past in (PROMPT, PROMPT + 1):
        for prompt, token in zip(prompts, found.best, strict=True):
            prompt.append(token)
        found = ranks.engine.decode(found.best, past, starts)
    expected = [torch_logits(model, prompt)[-1] for prompt in prompts]
    bound = TOLERANCE * np.std(expected)
    np.testing.assert_allclose(found.logits, expected, rtol=0, atol=bound)


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    """One model in blocks, for one device and for two ranks, which overlap what they do.

    The ranks share its key head, and its cache is in blocks, too.
    """
    model = make("llama", num_key_value_heads=1, head_dim=32)
    folder = tmp_path_factory.mktemp("bundles")
    for name, grid in (("alone", ""), ("ranks", "tp=2")):
        options = CompileOptions(dtype="q4_0", context=CONTEXT, grid=grid, overlap=bool(grid))
        compile_model(as_loaded(model), options, folder / name)
    return folder


def test_no_sum_over_blocks_is_made_in_parts(bundles):
    tokens = random_tokens(PROMPT)
    alone = llmc.runtime.load(bundles / "alone", threads=1)
    ranks = llmc.runtime.load(bundles / "ranks", threads=1, local=True)
    expected = alone.logits(tokens, every=True)
    np.testing.assert_array_equal(ranks.logits(tokens, every=True), expected)
    *halved, last = random_tokens(CONTEXT)
    steps = []
    for engine in (alone.engine, ranks.engine):
        engine.reset(1, CONTEXT)
        first = engine.prefill(halved, 0).logits
        steps.append((*first, *engine.decode([last], len(halved), [0]).logits))
    np.testing.assert_array_equal(*steps)


def test_halves_of_a_prompt_send_what_the_whole_does(bundles):
    ranks = llmc.runtime.load(bundles / "ranks", threads=1, local=True)

    def sent(count):
        before = ranks.communicator.moved
        ranks.logits(random_tokens(count))
        return ranks.communicator.moved - before

    assert sent(64) - sent(63) == sent(3) - sent(2) > 0


def archive_sizes(folder: Path) -> list[int]:
    manifest = Manifest.read(folder)
    return [manifest.files[code.parameters].size for code in manifest.modules]


def test_a_rank_has_its_own_weights_alone(bundles):
    (whole,), parts = archive_sizes(bundles / "alone"), archive_sizes(bundles / "ranks")
    # What archives are filled up by, and what both have: norms, and frequencies of the rotary
    # embedding.
    shared = 16384
    assert len(parts) == 2
    assert whole <= sum(parts) + shared
    assert max(parts) <= whole / 2 + shared


def test_one_device_has_nothing_to_overlap():
    with pytest.raises(UserError, match="give a grid"):
        CompileOptions(overlap=True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"grid": "tp=2", "overlap": True}, "--overlap is for cpu"),
        ({"grid": "sp=2"}, "sp is for cpu"),
    ],
)
def test_what_gpus_cannot_do_is_refused(options, said, tmp_path):
    options = CompileOptions(target="cuda:sm_80", **options)
    with pytest.raises(UserError, match=said):
        compile_model(as_loaded(make("llama")), options, tmp_path / "bundle")
