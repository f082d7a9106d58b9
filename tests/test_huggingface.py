"""Hugging Face folders: the model that comes out is the one that was saved, or one clear line."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer as RawTokenizer
from tokenizers import processors
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    Gemma3Config,
    LlamaConfig,
    PreTrainedModel,
)

from llmc.frontend import loaded_model
from llmc.frontend.source import open_model
from llmc.runtime.errors import UserError
from llmc.runtime.tokenizer import Tokenizer
from tests.tiny_models import (
    CHAT_TEMPLATE,
    FAMILIES,
    VOCAB_SIZE,
    save_tiny_model,
    save_tiny_tokenizer,
    tiny_config,
    tiny_model,
)

# Longer than the models' windows of 8.
IDS = (torch.arange(3, 43) * 7 % VOCAB_SIZE)[None]
TEXTS = (
    "the cat in the hat",
    "12 12 in\n\n  x",
    "<|im_start|>user\nhi<|im_end|>",
    "né 日本 🙂",
    "",
)
ATTENTIONS = [(family, "eager") for family in FAMILIES] + [
    (family, "sdpa")
    for family in FAMILIES
    if family != "gemma2"  # which transformers refuses
]


@pytest.fixture(scope="module")
def llama_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("llama")
    save_tiny_model("llama", folder)
    return folder


@pytest.fixture
def llama(llama_folder: Path, tmp_path: Path) -> Path:
    """A folder to damage."""
    return Path(shutil.copytree(llama_folder, tmp_path / "llama"))


@torch.no_grad()
def logits(model: PreTrainedModel) -> torch.Tensor:
    return model(IDS).logits


def loaded(folder: Path, attention: str = "eager", layers: int | None = None) -> PreTrainedModel:
    model = open_model(folder, layers)
    skeleton = model.skeleton(attention)
    report = skeleton.load_state_dict(model.weights(), strict=False)
    assert not report.unexpected_keys
    assert set(report.missing_keys) <= set(skeleton.all_tied_weights_keys)
    return skeleton


@pytest.mark.parametrize(("family", "attention"), ATTENTIONS)
def test_logits_are_the_saved_models(family: str, attention: str, tmp_path: Path) -> None:
    saved = save_tiny_model(family, tmp_path)
    saved.set_attn_implementation(attention)
    assert torch.equal(logits(loaded(tmp_path, attention)), logits(saved))


def test_sharded(tmp_path: Path) -> None:
    saved = save_tiny_model("mixtral", tmp_path, max_shard_size="100KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    assert torch.equal(logits(loaded(tmp_path, "sdpa")), logits(saved))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_weights_keep_their_type(dtype: torch.dtype, tmp_path: Path) -> None:
    model = tiny_model(tiny_config("llama")).to(dtype)
    model.save_pretrained(tmp_path)
    save_tiny_tokenizer(tmp_path)
    read = open_model(tmp_path)
    assert read.storage == str(dtype).removeprefix("torch.")
    for name, weight in read.weights().items():
        assert weight.dtype == dtype
        assert torch.equal(weight, model.state_dict()[name])


def test_weights_of_several_types_are_all_exact(llama: Path) -> None:
    path = llama / "model.safetensors"
    stored = {
        name: weight if weight.ndim == 1 else weight.bfloat16()
        for name, weight in load_file(path).items()
    }
    save_file(stored, path, metadata={"format": "pt"})
    model = open_model(llama)
    assert model.storage == "bfloat16"
    for name, weight in model.weights().items():
        assert weight.dtype == torch.float32
        assert torch.equal(weight, stored[name].float())


def test_first_layers_only(tmp_path: Path) -> None:
    saved = save_tiny_model("gemma3_text", tmp_path)
    saved.model.layers = saved.model.layers[:3]
    saved.set_attn_implementation("eager")
    cut = loaded(tmp_path, layers=3)
    assert cut.config.layer_types == ["sliding_attention", "full_attention", "sliding_attention"]
    assert torch.equal(logits(cut), logits(saved))
    for layers in (0, 5):
        with pytest.raises(UserError, match="4"):
            open_model(tmp_path, layers)


@pytest.mark.parametrize("tied", [True, False])
def test_text_part_of_a_multimodal_model(tied: bool, tmp_path: Path) -> None:
    """Whether its head is tied may be said of the whole model alone."""
    vision = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
    vision |= {"num_attention_heads": 2, "image_size": 28, "patch_size": 14}
    config = Gemma3Config(text_config=tiny_config("gemma3_text").to_dict(), vision_config=vision)
    config.tie_word_embeddings = config.text_config.tie_word_embeddings = tied
    saved = AutoModelForCausalLM.from_config(config).eval()
    saved.save_pretrained(tmp_path)
    written = json.loads((tmp_path / "config.json").read_text())
    del written["text_config"]["tie_word_embeddings"]
    (tmp_path / "config.json").write_text(json.dumps({**written, "tie_word_embeddings": tied}))
    save_tiny_tokenizer(tmp_path)
    text = loaded(tmp_path, "sdpa")
    assert text.config.model_type == "gemma3_text"
    torch.testing.assert_close(logits(text), logits(saved))


def test_skeleton_costs_no_memory_and_has_its_buffers() -> None:
    config = LlamaConfig(hidden_size=4096, num_hidden_layers=4, head_dim=128)
    statm = Path("/proc/self/statm")
    if not statm.is_file():
        pytest.skip("needs Linux to see the memory in use")
    before = int(statm.read_text().split()[1])
    model = loaded_model.build(config)
    pages = int(statm.read_text().split()[1]) - before
    assert sum(weight.nbytes for weight in model.parameters()) > (3 << 30)
    assert pages * 4096 < (100 << 20)
    assert not model.training
    expected = 10000.0 ** -(torch.arange(0, 128, 2) / 128)
    torch.testing.assert_close(model.get_buffer("model.rotary_emb.inv_freq"), expected)


def test_skeleton_has_gemmas_embedding_scale(tmp_path: Path) -> None:
    save_tiny_model("gemma3_text", tmp_path)
    skeleton = open_model(tmp_path).skeleton("eager")
    assert skeleton.get_buffer("model.embed_tokens.embed_scale").item() == 8  # sqrt(64)
    assert skeleton.lm_head.weight is skeleton.model.embed_tokens.weight


def test_tokenizer_is_transformers(llama_folder: Path) -> None:
    model = open_model(llama_folder)
    ours = Tokenizer(model.tokenizer_json, model.tokenizer)
    theirs = AutoTokenizer.from_pretrained(llama_folder)
    for text in TEXTS:
        assert ours.encode(text) == theirs(text).input_ids
    assert model.tokenizer.bos_token == "<|im_start|>"
    assert model.tokenizer.bos_token_id == 1
    assert model.tokenizer.eos_token == "<|im_end|>"
    assert model.tokenizer.chat_template == CHAT_TEMPLATE
    assert model.context == 128


def test_tokenizer_from_vocabulary_and_merges(tmp_path: Path) -> None:
    save_tiny_model("gpt2", tmp_path)
    expected = AutoTokenizer.from_pretrained(tmp_path)
    content = json.loads((tmp_path / "tokenizer.json").read_text())
    (tmp_path / "vocab.json").write_text(json.dumps(content["model"]["vocab"]))
    merges = [" ".join(merge) for merge in content["model"]["merges"]]
    (tmp_path / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n")
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "GPT2Tokenizer"}')
    model = open_model(tmp_path)
    ours = Tokenizer(model.tokenizer_json, model.tokenizer)
    for text in ("the cat in the hat", "12 12 in\n\n  x", "né 日本 🙂"):
        assert ours.encode(text) == expected(text).input_ids


def test_bos_before_the_text(llama: Path) -> None:
    tokenizer = RawTokenizer.from_file(str(llama / "tokenizer.json"))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|im_start|> $A", special_tokens=[("<|im_start|>", 1)]
    )
    tokenizer.enable_truncation(4)  # which transformers leaves to its caller
    tokenizer.save(str(llama / "tokenizer.json"))
    model = open_model(llama)
    ids = Tokenizer(model.tokenizer_json, model.tokenizer).encode("the cat in the hat")
    assert ids[0] == 1
    assert ids == AutoTokenizer.from_pretrained(llama)("the cat in the hat").input_ids


def test_all_ids_that_end_a_text(llama: Path) -> None:
    edit(llama / "generation_config.json", eos_token_id=[0, 7])
    assert open_model(llama).tokenizer.eos_token_ids == (0, 7, 2)


def test_chat_template_in_a_file_or_in_the_configuration(llama: Path) -> None:
    (llama / "chat_template.jinja").write_text("{{ messages }}")
    assert open_model(llama).tokenizer.chat_template == "{{ messages }}"
    (llama / "chat_template.jinja").unlink()
    named = [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]
    edit(llama / "tokenizer_config.json", chat_template=named)
    assert open_model(llama).tokenizer.chat_template == "d"
    for nothing in ("", None):
        edit(llama / "tokenizer_config.json", chat_template=nothing)
        assert open_model(llama).tokenizer.chat_template is None


def test_added_token_without_a_row_is_left_out(llama: Path) -> None:
    content = json.loads((llama / "tokenizer.json").read_text())
    vocabulary = content["model"]["vocab"]
    vocabulary |= {f"unused{i}": i for i in range(len(vocabulary), VOCAB_SIZE)}
    image = {**content["added_tokens"][0], "id": VOCAB_SIZE, "content": "<image>"}
    content["added_tokens"].append(image)
    (llama / "tokenizer.json").write_text(json.dumps(content))
    model = open_model(llama)
    assert max(Tokenizer(model.tokenizer_json, model.tokenizer).encode("a<image>b")) < VOCAB_SIZE


def edit(path: Path, **values: Any) -> None:
    content = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps(content | values))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def edit_weights(folder: Path, **changes: torch.Tensor | None) -> None:
    """Replaces, adds or (None) removes weights, whose names have `__` for a dot."""
    path = folder / "model.safetensors"
    weights: dict[str, torch.Tensor | None] = dict(load_file(path))
    weights |= {name.replace("__", "."): value for name, value in changes.items()}
    kept = {name: value for name, value in weights.items() if value is not None}
    save_file(kept, path, metadata={"format": "pt"})


def shard(folder: Path, name: str) -> None:
    (folder / "model.safetensors").unlink()
    index = {"weight_map": {"model.norm.weight": name}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def shard_elsewhere(folder: Path) -> None:
    shutil.copy(folder / "model.safetensors", folder.parent)
    shard(folder, "../model.safetensors")


def shard_with_ending(folder: Path, ending: str) -> None:
    shutil.copy(folder / "model.safetensors", folder / f"model{ending}")
    shard(folder, f"model{ending}")


# What is done to a good folder, and what the message has to name.
DAMAGE = {
    "no configuration": (lambda f: (f / "config.json").unlink(), "config.json"),
    "configuration cut short": (lambda f: cut(f / "config.json"), "config.json"),
    "configuration a list": (lambda f: (f / "config.json").write_text("[]"), "config.json"),
    "unknown family": (lambda f: edit(f / "config.json", model_type="zork"), "zork"),
    "family without a decoder": (lambda f: edit(f / "config.json", model_type="vit"), "vit"),
    "no family": (lambda f: edit(f / "config.json", model_type=["llama"]), "model_type"),
    "quantised": (
        lambda f: edit(f / "config.json", quantization_config={"quant_method": "awq"}),
        "awq",
    ),
    "size of text": (lambda f: edit(f / "config.json", hidden_size="64"), "hidden_size"),
    "no heads": (lambda f: edit(f / "config.json", num_attention_heads=0), "config.json"),
    "unknown activation": (lambda f: edit(f / "config.json", hidden_act="zork"), "zork"),
    "negative size": (lambda f: edit(f / "config.json", intermediate_size=-8), "config.json"),
    "endless layers": (lambda f: edit(f / "config.json", num_hidden_layers=10**9), "layers"),
    "other vocabulary": (lambda f: edit(f / "config.json", vocab_size=400), "400x64"),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "model.safetensors"),
    "pickled weights": (
        lambda f: (f / "model.safetensors").rename(f / "pytorch_model.bin"),
        "safetensors",
    ),
    "weights cut short": (lambda f: cut(f / "model.safetensors"), "model.safetensors"),
    "weights of zeros": (
        lambda f: (f / "model.safetensors").write_bytes(bytes(64)),
        "model.safetensors",
    ),
    "missing shard": (lambda f: shard(f, "model-00001-of-00002.safetensors"), "00001"),
    "shard elsewhere": (shard_elsewhere, "index.json"),
    "shard with another ending": (lambda f: shard_with_ending(f, ".dat"), "index.json"),
    "shard not a name": (lambda f: shard(f, ["x"]), "index.json"),
    "missing weight": (lambda f: edit_weights(f, model__norm__weight=None), "model.norm"),
    "weight too many": (lambda f: edit_weights(f, zork__weight=torch.zeros(2)), "zork"),
    "weight of another shape": (
        lambda f: edit_weights(f, model__norm__weight=torch.zeros(65)),
        "model.norm",
    ),
    "weight of another size": (
        lambda f: edit(f / "config.json", vocab_size=10**8),
        "100000000x64",
    ),
    "weight of integers": (
        lambda f: edit_weights(f, model__norm__weight=torch.ones(64, dtype=torch.int8)),
        "model.norm",
    ),
    "head that is tied and is not": (
        lambda f: edit(f / "config.json", tie_word_embeddings=True),
        "tie_word_embeddings",
    ),
    "padding that has no row": (
        lambda f: edit(f / "config.json", pad_token_id=VOCAB_SIZE),
        "Padding_idx",
    ),
    "weights of 8 bits": (
        lambda f: edit_weights(f, model__norm__weight=torch.zeros(64).to(torch.float8_e4m3fn)),
        "F8",
    ),
    "no tokenizer": (lambda f: (f / "tokenizer.json").unlink(), "tokenizer"),
    "tokenizer cut short": (lambda f: cut(f / "tokenizer.json"), "tokenizer.json"),
    "tokenizer of the folder's own code": (
        lambda f: edit(
            f / "tokenizer_config.json",
            tokenizer_class="Zork",
            auto_map={"AutoTokenizer": ["zork.Zork", None]},
        ),
        "tokenizer",
    ),
    "tokenizer's settings cut short": (
        lambda f: cut(f / "tokenizer_config.json"),
        "tokenizer_config.json",
    ),
    "another model's tokenizer": (lambda f: widen_tokenizer(f / "tokenizer.json"), "vocabulary"),
    "tokenizer with a token of nobody's": (
        lambda f: begin_texts(f / "tokenizer.json", "<zork>"),
        "<zork>",
    ),
    "tokenizer that begins with an id of nobody's": (
        lambda f: begin_texts(f / "tokenizer.json", "<zork>", VOCAB_SIZE),
        "<zork>",
    ),
    "endings cut short": (lambda f: cut(f / "generation_config.json"), "generation_config.json"),
}


def widen_tokenizer(path: Path) -> None:
    content = json.loads(path.read_text())
    content["model"]["vocab"]["zork"] = VOCAB_SIZE
    path.write_text(json.dumps(content))


def begin_texts(path: Path, token: str, *ids: int) -> None:
    """Lets the tokenizer put a token before each text, with `ids` if there are any."""
    pieces = [{"SpecialToken": {"id": token, "type_id": 0}}]
    known = {token: {"id": token, "ids": list(ids), "tokens": [token]}} if ids else {}
    template = {
        "type": "TemplateProcessing",
        "single": pieces,
        "pair": [],
        "special_tokens": known,
    }
    edit(path, post_processor={"type": "Sequence", "processors": [template]})


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_is_one_clear_line(what: str, llama: Path, capfd: pytest.CaptureFixture) -> None:
    damage, named = DAMAGE[what]
    damage(llama)
    with pytest.raises(UserError) as caught:
        open_model(llama).weights()
    message = str(caught.value)
    assert named in message
    assert "\n" not in message
    assert len(message) < 400 + len(str(llama)) * 2
    assert capfd.readouterr() == ("", "")
