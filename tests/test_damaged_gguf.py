"""Damaged GGUF files, and those that hold no model that can be read, are one clear line."""

import random
import struct
import time
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFWriter

from llmc.frontend.gguf import open_gguf
from llmc.runtime.errors import UserError
from tests.tiny_gguf import drop, set_value, write_gguf
from tests.tiny_models import tiny_config, tiny_model


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A whole file."""
    path = tmp_path_factory.mktemp("gguf") / "m.gguf"
    write_gguf(path, tiny_model(tiny_config("llama")), GGMLQuantizationType.Q4_0)
    return path.read_bytes()


def fails(path: Path, content: bytes) -> str:
    """The one line that reading `content` fails with."""
    path.write_bytes(content)
    with pytest.raises(UserError) as caught:
        open_gguf(path).weights()
    message = str(caught.value)
    assert message.isprintable()
    assert len(message) < 400 + len(str(path))
    return message


def put(content: bytes, at: int, value: bytes) -> bytes:
    return content[:at] + value + content[at + len(value) :]


def after(content: bytes, key: str) -> int:
    """Where the value (or what describes it) after `key` begins."""
    return content.index(key.encode()) + len(key)


ARRAY = 9
MANY = struct.pack("<Q", 2**62)
# What is done to a good file's bytes, and what the message has to name.
BYTES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda c: b"", "empty"),
    "four bytes": (lambda c: c[:4], "m.gguf"),
    "text": (lambda c: b"not a model", "GGUF"),
    "version 1": (lambda c: put(c, 4, struct.pack("<I", 1)), "version 1"),
    "big-endian": (lambda c: put(c, 4, struct.pack(">I", 3)), "version"),
    "endless tensors": (lambda c: put(c, 8, MANY), "damaged"),
    "endless metadata": (lambda c: put(c, 16, MANY), "damaged"),
    "endless name": (lambda c: put(c, 24, MANY), "ends"),
    "endless texts": (lambda c: put(c, after(c, "ggml.tokens") + 8, MANY), "damaged"),
    "endless numbers": (lambda c: put(c, after(c, "token_type") + 8, MANY), "ends"),
    "arrays of arrays": (
        lambda c: put(c, after(c, "token_type") + 4, struct.pack("<I", ARRAY)),
        "type 9",
    ),
    "unknown metadata type": (
        lambda c: put(c, after(c, "block_count"), struct.pack("<I", 99)),
        "type 99",
    ),
    "text that is not UTF-8": (lambda c: put(c, after(c, "chat_template") + 12, b"\xff"), "UTF-8"),
    "name of control letters": (lambda c: c.replace(b"block_count", b"bl\x1b[2Jcount"), "name"),
    "five dimensions": (
        lambda c: put(c, after(c, "blk.0.attn_q.weight"), struct.pack("<I", 5)),
        "attn_q",
    ),
    "no elements": (
        lambda c: put(c, after(c, "blk.0.attn_q.weight") + 4, struct.pack("<Q", 0)),
        "attn_q",
    ),
    "endless elements": (
        lambda c: put(c, after(c, "blk.0.attn_q.weight") + 4, MANY + MANY),
        "attn_q",
    ),
    "half a block": (
        lambda c: put(c, after(c, "blk.0.attn_q.weight") + 4, struct.pack("<Q", 48)),
        "attn_q",
    ),
    "unknown tensor type": (
        lambda c: put(c, after(c, "blk.0.attn_q.weight") + 20, struct.pack("<I", 99)),
        "attn_q",
    ),
    "tensor outside": (lambda c: put(c, after(c, "blk.0.attn_q.weight") + 24, MANY), "attn_q"),
    "last byte missing": (lambda c: c[:-64], "ends"),
}


@pytest.mark.parametrize("what", BYTES)
def test_damaged_bytes_are_one_clear_line(what: str, written: bytes, tmp_path: Path) -> None:
    damage, named = BYTES[what]
    assert named in fails(tmp_path / "m.gguf", damage(written))


def drop_tensor(name: str) -> Callable[[GGUFWriter], None]:
    return lambda writer: writer.tensors[0].pop(name)


def put_tensor(name: str, value: np.ndarray) -> Callable[[GGUFWriter], None]:
    def change(writer: GGUFWriter) -> None:
        writer.tensors[0].pop(name, None)
        writer.add_tensor(name, value)

    return change


ZEROS = np.zeros((64, 64), np.float32)
CONTENT: dict[str, tuple[Callable[[GGUFWriter], None], str]] = {
    "unknown architecture": (set_value("general.architecture", "zork"), "zork"),
    "a name of ours": (set_value("general.architecture", "mixtral"), "architecture 'mixtral'"),
    "architecture a number": (set_value("general.architecture", 7), "architecture"),
    "unknown setting": (lambda w: w.add_float32("llama.zork", 1.0), "zork"),
    "no layer count": (drop("llama.block_count"), "block_count"),
    "no layers": (set_value("llama.block_count", 0), "block_count"),
    "endless layers": (set_value("llama.block_count", 2**32 - 1), "layers"),
    "layers of text": (set_value("llama.block_count", "two"), "block_count"),
    "no heads": (set_value("llama.attention.head_count", 0), "head_count"),
    "too many heads": (set_value("llama.attention.head_count", 2**31), "heads"),
    "odd heads": (set_value("llama.attention.key_length", 15), "odd"),
    "no context": (set_value("llama.context_length", 0), "context_length"),
    "epsilon no number": (
        set_value("llama.attention.layer_norm_rms_epsilon", float("nan")),
        "epsilon",
    ),
    "rotary base 0": (set_value("llama.rope.freq_base", 0.0), "freq_base"),
    "part of a head turned": (set_value("llama.rope.dimension_count", 8), "dimension_count"),
    "rotary scaling by yarn": (
        lambda w: w.add_rope_scaling_type(gguf.RopeScalingType.YARN),
        "yarn",
    ),
    "rotary scaling below 0": (lambda w: w.add_rope_scaling_factor(-2.0), "scaling.factor"),
    "rotary factors for others": (put_tensor("rope_freqs.weight", np.ones(4, np.float32)), "rope"),
    "rotary factors of 0": (put_tensor("rope_freqs.weight", np.zeros(8, np.float32)), "rope"),
    "rotary factors for long texts": (
        put_tensor("rope_factors_long.weight", np.ones(8, np.float32)),
        "rope_factors_long",
    ),
    "alignment 3": (lambda w: w.add_uint32("general.alignment", 3), "alignment"),
    "no embedding": (drop_tensor("token_embd.weight"), "token_embd"),
    "missing tensor": (drop_tensor("blk.1.attn_k.weight"), "blk.1.attn_k"),
    "tensor too many": (put_tensor("zork.weight", ZEROS), "zork"),
    "tensor of another shape": (put_tensor("blk.1.attn_k.weight", ZEROS), "64x64"),
    "tensor of integers": (
        put_tensor("blk.1.attn_k.weight", np.zeros((32, 64), np.int8)),
        "I8",
    ),
    "tensor of no numbers": (
        put_tensor("blk.1.attn_q.weight", ZEROS + np.float32("nan")),
        "blk.1.attn_q",
    ),
    "unknown tokenizer": (set_value("tokenizer.ggml.model", "zork"), "zork"),
    "unknown pre-tokenizer": (set_value("tokenizer.ggml.pre", "zork"), "zork"),
    "no tokens": (drop("tokenizer.ggml.tokens"), "tokens"),
    "tokens of numbers": (set_value("tokenizer.ggml.tokens", [1, 2]), "tokens"),
    "more tokens than types": (set_value("tokenizer.ggml.token_type", [1] * 9), "token_type"),
    "more tokens than rows": (
        lambda w: (
            w.kv_data[0]["tokenizer.ggml.tokens"].value.append("zork"),
            w.kv_data[0]["tokenizer.ggml.token_type"].value.append(1),
        ),
        "vocabulary",
    ),
    "merges of unknown tokens": (set_value("tokenizer.ggml.merges", ["zork zork"]), "zork"),
    "BOS outside": (set_value("tokenizer.ggml.bos_token_id", 2**32 - 1), "bos_token_id"),
    "EOS a text": (set_value("tokenizer.ggml.eos_token_id", "</s>"), "eos_token_id"),
}


@pytest.mark.parametrize("what", CONTENT)
def test_content_that_makes_no_model_is_one_clear_line(what: str, tmp_path: Path) -> None:
    change, named = CONTENT[what]
    write_gguf(tmp_path / "w.gguf", tiny_model(tiny_config("llama")), change=change)
    assert named in fails(tmp_path / "m.gguf", (tmp_path / "w.gguf").read_bytes())


def test_rotary_factors_where_nothing_is_turned(tmp_path: Path) -> None:
    factors = put_tensor("rope_freqs.weight", np.ones(8, np.int8))
    write_gguf(tmp_path / "w.gguf", tiny_model(tiny_config("gpt2")), change=factors)
    assert "rope_freqs" in fails(tmp_path / "m.gguf", (tmp_path / "w.gguf").read_bytes())


def test_random_damage_fails_soon_and_clearly(written: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    header = written.index(b"output_norm.weight")  # in the table of tensors, after the metadata
    rng = random.Random(0)
    refused = 0
    for _ in range(400):
        content = bytearray(written)
        for _ in range(rng.choice((1, 1, 2, 8))):
            at = rng.randrange(header)
            with_ = rng.choice((b"\xff" * 8, bytes(8), rng.randbytes(1), rng.randbytes(8)))
            content[at : at + len(with_)] = with_
        if rng.random() < 0.25:
            del content[rng.randrange(len(content)) :]
        path.write_bytes(content)
        start = time.perf_counter()
        try:
            open_gguf(path).weights()
        except UserError as error:
            assert str(error).isprintable()
            refused += 1
        assert time.perf_counter() - start < 2
    assert refused > 200
