"""GGUF files: the model is the one that was written, in every type that one can have."""

from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType, GGUFWriter, TokenType
from tokenizers import Tokenizer as HFTokenizer
from transformers import PreTrainedModel

from llmc.dialects.blocks import decode, format_of
from llmc.frontend.gguf import open_gguf
from llmc.frontend.gguf_blocks import KEPT
from llmc.frontend.loaded_model import LoadedModel
from llmc.frontend.source import open_model
from llmc.runtime.errors import UserError
from llmc.runtime.tokenizer import Tokenizer
from tests.tiny_gguf import drop, set_value, write_gguf
from tests.tiny_models import CHAT_TEMPLATE, VOCAB_SIZE, tiny_config, tiny_model, tiny_tokenizer

FAMILIES = (
    "llama",
    "mixtral",
    "qwen2",
    "qwen3",
    "qwen3_moe",
    "olmo2",
    "olmoe",
    "smollm3",
    "granite",
    "granitemoe",
    "ernie4_5",
    "exaone4",
    "hunyuan_v1_dense",
    "phi3",
    "gemma",
    "gemma2",
    "gemma3_text",
    "gpt2",
)
# Those that the gguf package can write.
WRITTEN = ("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0")
# Those that it only reads: blocks of 256 with a float16 scale at these bytes.
SCALES = {"Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,)}
LLAMA_3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
IDS = (torch.arange(3, 43) * 7 % VOCAB_SIZE)[None]


@torch.no_grad()
def logits(model: PreTrainedModel) -> torch.Tensor:
    model.set_attn_implementation("eager")
    return model(IDS).logits


def loaded(path: Path, layers: int | None = None) -> PreTrainedModel:
    model = open_gguf(path, layers)
    skeleton = model.skeleton("eager")
    report = skeleton.load_state_dict(model.weights(), strict=False)
    assert not report.unexpected_keys
    assert set(report.missing_keys) <= set(skeleton.all_tied_weights_keys)
    return skeleton


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_are_the_written_models(family: str, tmp_path: Path) -> None:
    model = tiny_model(tiny_config(family))
    write_gguf(tmp_path / "m.gguf", model)
    # Gemma's norms are stored plus one, which costs them a bit.
    torch.testing.assert_close(logits(loaded(tmp_path / "m.gguf")), logits(model))


@pytest.mark.parametrize("name", WRITTEN)
def test_logits_of_every_type(name: str, tmp_path: Path) -> None:
    kind = GGMLQuantizationType[name]
    model = tiny_model(tiny_config("llama"))
    write_gguf(tmp_path / "m.gguf", model, kind)
    for weight in model.parameters():
        if weight.ndim > 1:
            stored = gguf.quants.quantize(weight.numpy(), kind)
            weight.copy_(torch.from_numpy(gguf.dequantize(stored.view(np.uint8), kind)))
    assert torch.equal(logits(loaded(tmp_path / "m.gguf")), logits(model))
    read = open_gguf(tmp_path / "m.gguf")
    plain = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}
    assert read.storage == plain.get(name, name)
    expected = getattr(torch, plain.get(name, "float32"))
    assert read.weights()["model.layers.0.mlp.up_proj.weight"].dtype == expected


@pytest.mark.parametrize("name", SCALES)
def test_blocks_of_256(name: str, tmp_path: Path) -> None:
    kind = GGMLQuantizationType[name]
    config = tiny_config("llama")
    config.intermediate_size = 512
    rows, block_bytes = config.hidden_size, gguf.GGML_QUANT_SIZES[kind][1]
    blocks = np.random.default_rng(0).integers(0, 256, (rows, 2, block_bytes), np.uint8)
    for at in SCALES[name]:
        blocks[:, :, at : at + 2] = np.array([0.01], np.float16).view(np.uint8)
    blocks = blocks.reshape(rows, -1)
    model = tiny_model(config)

    def replace(writer: GGUFWriter) -> None:
        del writer.tensors[0]["blk.1.ffn_down.weight"]
        writer.add_tensor("blk.1.ffn_down.weight", blocks, raw_dtype=kind)

    write_gguf(tmp_path / "m.gguf", model, change=replace)
    read, weight = open_gguf(tmp_path / "m.gguf"), "model.layers.1.mlp.down_proj.weight"
    assert torch.equal(read.weights()[weight], torch.from_numpy(gguf.dequantize(blocks, kind)))
    kept = KEPT.get(kind)
    assert read.formats[weight] == (kept.format.name if kept else "q8_0")
    stored = read.stored_weights()[weight]
    assert (kept and kept.format) == (format_of(stored) if isinstance(stored, np.ndarray) else None)


@pytest.mark.parametrize("kind", KEPT, ids=lambda kind: kind.name)
def test_kept_blocks_have_the_values_of_the_files(kind: GGMLQuantizationType) -> None:
    random = np.random.default_rng(0)
    data = random.integers(0, 256, (6, 2 * gguf.GGML_QUANT_SIZES[kind][1]), np.uint8)
    blocks = data.view(KEPT[kind].dtype)
    blocks["scale"] = random.standard_normal(blocks.shape)
    if KEPT[kind].format.has_minimum:
        blocks["minimum"] = random.standard_normal(blocks.shape)
    bound = np.zeros(blocks.shape)
    if kind.name.endswith("_K"):
        # Scales and minima are rounded to float16: factors of 8 bits, or 6, times the file's.
        parts = [np.abs(blocks[field]) for field in KEPT[kind].format.floats]
        most = KEPT[kind].format.most * parts[0] + sum(parts[1:])
        bound = 2.0**-11 * (128 if kind.name == "Q6_K" else 63) * most
    values = gguf.dequantize(data, kind)
    found = decode(KEPT[kind].blocks(data.reshape(-1), values.shape))
    assert (np.abs(found - values).reshape(*blocks.shape, -1) <= bound[..., None]).all()


def test_rotary_factors_of_llama_3(tmp_path: Path) -> None:
    config = tiny_config("llama")
    plain = tiny_model(config).model.rotary_emb.inv_freq
    config.rope_parameters = LLAMA_3
    model = tiny_model(config)
    factors = (plain / model.model.rotary_emb.inv_freq).numpy()
    assert factors.max() > 7
    write_gguf(
        tmp_path / "m.gguf", model, change=lambda w: w.add_tensor("rope_freqs.weight", factors)
    )
    # A factor's rounding (6e-8) is multiplied by the position.
    torch.testing.assert_close(
        logits(loaded(tmp_path / "m.gguf")), logits(model), atol=1e-4, rtol=0
    )


def test_linear_rotary_scaling(tmp_path: Path) -> None:
    config = tiny_config("llama")
    config.rope_parameters = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}
    model = tiny_model(config)

    def scale(writer: GGUFWriter) -> None:
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(4.0)

    write_gguf(tmp_path / "m.gguf", model, change=scale)
    assert torch.equal(logits(loaded(tmp_path / "m.gguf")), logits(model))


def test_rotary_scaling_by_0_is_none(tmp_path: Path) -> None:
    model = tiny_model(tiny_config("llama"))
    write_gguf(tmp_path / "m.gguf", model, change=lambda w: w.add_rope_scaling_factor(0.0))
    assert torch.equal(logits(loaded(tmp_path / "m.gguf")), logits(model))


def test_biases_of_llama(tmp_path: Path) -> None:
    config = tiny_config("llama")
    config.attention_bias = config.mlp_bias = True
    model = tiny_model(config)
    write_gguf(tmp_path / "m.gguf", model)
    assert torch.equal(logits(loaded(tmp_path / "m.gguf")), logits(model))


def test_first_layers_only(tmp_path: Path) -> None:
    model = tiny_model(tiny_config("gemma2"))
    write_gguf(tmp_path / "m.gguf", model)
    model.model.layers = model.model.layers[:3]
    cut = loaded(tmp_path / "m.gguf", 3)
    torch.testing.assert_close(logits(cut), logits(model))
    with pytest.raises(UserError, match="4"):
        open_gguf(tmp_path / "m.gguf", 5)


def test_tokenizer_and_facts(tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf", tiny_model(tiny_config("llama")))
    model = open_gguf(tmp_path / "m.gguf")
    ours = Tokenizer(model.tokenizer_json, model.tokenizer)
    for text in ("the cat in the hat", "12 12\n\n  x", "<|im_start|>user\nhi<|im_end|>", "né 日本"):
        assert ours.encode(text) == tiny_tokenizer().encode(text).ids
        assert ours.decode(ours.encode(text), skip_special=False) == text
    assert model.context == 128
    assert model.tokenizer.bos_token == "<|im_start|>"
    assert model.tokenizer.bos_token_id == 1
    assert model.tokenizer.eos_token_ids == (2, 0)  # 0 is <|endoftext|>
    assert model.tokenizer.chat_template == CHAT_TEMPLATE


def test_a_bos_without_a_row_is_none(tmp_path: Path) -> None:
    def with_another(writer: GGUFWriter) -> None:
        writer.kv_data[0]["tokenizer.ggml.tokens"].value.append("<bos>")
        writer.kv_data[0]["tokenizer.ggml.token_type"].value.append(TokenType.CONTROL)
        set_value("tokenizer.ggml.bos_token_id", VOCAB_SIZE)(writer)
        drop("tokenizer.ggml.add_bos_token")(writer)
        writer.add_add_bos_token(True)

    write_gguf(tmp_path / "m.gguf", tiny_model(tiny_config("llama")), change=with_another)
    model = open_gguf(tmp_path / "m.gguf")
    assert (model.tokenizer.bos_token, model.tokenizer.bos_token_id) == (None, None)
    ours = Tokenizer(model.tokenizer_json, model.tokenizer)
    assert ours.encode("the") == tiny_tokenizer().encode("the").ids


@pytest.mark.parametrize(("pre", "pieces"), [("gpt-2", ["12"]), ("smollm", ["1", "2"])])
def test_digits_one_by_one(pre: str, pieces: list[str], tmp_path: Path) -> None:
    change = set_value("tokenizer.ggml.pre", pre)
    write_gguf(tmp_path / "m.gguf", tiny_model(tiny_config("llama")), change=change)
    model = open_gguf(tmp_path / "m.gguf")
    ours = Tokenizer(model.tokenizer_json, model.tokenizer)
    assert [ours.piece(i) for i in ours.encode("12")] == pieces


def test_numbers_and_scripts_are_cut_as_deepseek_does(tmp_path: Path) -> None:
    change = set_value("tokenizer.ggml.pre", "hunyuan-dense")
    write_gguf(tmp_path / "m.gguf", tiny_model(tiny_config("llama")), change=change)
    text = "12345, it's x=y;\n中文かな abc"
    words = HFTokenizer.from_str(open_gguf(tmp_path / "m.gguf").tokenizer_json).pre_tokenizer
    cut = [text[slice(*span)] for _, span in words.pre_tokenize_str(text)]
    assert cut == ["123", "45", ",", " it", "'s", " x", "=y", ";\n", "中文かな", " abc"]


def test_llama_3_keeps_words_of_its_vocabulary_and_adds_bos(tmp_path: Path) -> None:
    def as_llama_3(writer: GGUFWriter) -> None:
        set_value("tokenizer.ggml.pre", "llama-bpe")(writer)
        drop("tokenizer.ggml.add_bos_token")(writer)
        writer.kv_data[0]["tokenizer.ggml.tokens"].value[-1] = "zork"  # which no merge makes

    write_gguf(tmp_path / "m.gguf", tiny_model(tiny_config("llama")), change=as_llama_3)
    model = open_gguf(tmp_path / "m.gguf")
    ours = Tokenizer(model.tokenizer_json, model.tokenizer)
    assert ours.encode("zork") == [1, VOCAB_SIZE - 1]


@pytest.mark.parametrize(("prefix", "start"), [(True, "▁the"), (False, "the")])
def test_sentencepiece_vocabulary(prefix: bool, start: str, tmp_path: Path) -> None:
    pieces = ["▁the", "▁cat", "the", "cat", "▁t", "th", "at", "he", "ca", "▁", *"thecas"]
    pieces = list(dict.fromkeys(pieces))
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    tokens = ["<unk>", "<s>", "</s>", *bytes_, *pieces]
    tokens += [f"[PAD{i}]" for i in range(len(tokens), VOCAB_SIZE)]
    types = [TokenType.UNKNOWN, TokenType.CONTROL, TokenType.CONTROL]
    types += [TokenType.BYTE] * 256 + [TokenType.NORMAL] * (VOCAB_SIZE - 259)

    def as_sentencepiece(writer: GGUFWriter) -> None:
        for key in list(writer.kv_data[0]):
            if key.startswith("tokenizer."):
                del writer.kv_data[0][key]
        writer.add_tokenizer_model("llama")
        writer.add_token_list(tokens)
        writer.add_token_types(types)
        # The earlier piece is the better one.
        writer.add_token_scores([float(-i) for i in range(VOCAB_SIZE)])
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(2)
        writer.add_add_space_prefix(prefix)

    write_gguf(tmp_path / "m.gguf", tiny_model(tiny_config("llama")), change=as_sentencepiece)
    model = open_gguf(tmp_path / "m.gguf")
    ours = Tokenizer(model.tokenizer_json, model.tokenizer)
    ids = ours.encode("the cat é")
    assert [tokens[i] for i in ids] == ["<s>", start, "▁cat", "▁", "<0xC3>", "<0xA9>"]
    assert ours.decode(ids) == "the cat é"


@pytest.fixture(scope="module")
def sample() -> LoadedModel:
    return open_model("smollm2")


def test_sample_continues_the_text(sample: LoadedModel) -> None:
    skeleton = sample.skeleton("sdpa")
    skeleton.load_state_dict(sample.weights(), strict=False)
    tokenizer = Tokenizer(sample.tokenizer_json, sample.tokenizer)
    ids = tokenizer.encode("The capital of France is")
    with torch.no_grad():
        output = skeleton.generate(torch.tensor([ids]), max_new_tokens=3, do_sample=False)
    assert tokenizer.decode(output[0, len(ids) :].tolist()).startswith(" Paris")
    assert sample.tokenizer.eos_token_ids[0] == 2


# From llama.cpp, which agrees with the tokenizer.json of HuggingFaceTB/SmolLM2-135M-Instruct.
@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("The capital of France is", [504, 3575, 282, 4649, 314]),
        ("Hello world! 123", [19556, 905, 17, 216, 33, 34, 35]),
        ("Café déjà vu.", [51, 1939, 2756, 32564, 90, 16739, 386, 101, 30]),
        ("  multiple   spaces", [216, 2701, 256, 5600]),
        ("<|im_start|>user\n", [1, 4093, 198]),
    ],
)
def test_sample_tokenizer(text: str, ids: list[int], sample: LoadedModel) -> None:
    assert Tokenizer(sample.tokenizer_json, sample.tokenizer).encode(text) == ids
