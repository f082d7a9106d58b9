"""GGUF files that are written for llama.cpp: read back, they are the model."""

from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel

from llmc.frontend.bench.contender import MissingError
from llmc.frontend.bench.gguf_writer import write_gguf
from llmc.frontend.gguf_config import read_config
from llmc.frontend.gguf_file import read_gguf
from llmc.frontend.gguf_weights import find_sources, read_weights, rope_buffers
from llmc.frontend.loaded_model import build
from llmc.frontend.source import open_model
from tests.test_gguf import FAMILIES, LLAMA_3
from tests.tiny_models import save_tiny_model, save_tiny_tokenizer, tiny_config, tiny_model

# What a configuration has of its folder, and what a file that has no tokenizer lacks.
UNWRITTEN = {"_name_or_path", "architectures", "dtype", "eos_token_id"}


def written_and_read(folder: Path) -> tuple[PreTrainedConfig, dict[str, Tensor]]:
    """The configuration and the weights of `folder`/model, by way of a file."""
    write_gguf(str(folder / "model"), None, folder / "written.gguf")
    file = read_gguf(folder / "written.gguf")
    config = read_config(file)
    return config, read_weights(file, config, find_sources(file, config))


def differing(config: PreTrainedConfig, other: PreTrainedConfig) -> set[str]:
    """The names of what two configurations, which both have it, differ in by more than float32."""
    ours, theirs = config.to_dict(), other.to_dict()
    return {
        name
        for name in ours.keys() & theirs.keys()
        if ours[name] != theirs[name]
        and not (isinstance(ours[name], float) and ours[name] == pytest.approx(theirs[name], 1e-7))
    }


def save_rotating(rope: dict, folder: Path) -> Tensor:
    """Saves a llama with such a rotary embedding; its frequencies."""
    config = tiny_config("llama")
    config.rope_parameters = rope
    return save(config, folder).model.rotary_emb.inv_freq


def save(config: PreTrainedConfig, folder: Path) -> PreTrainedModel:
    """Saves a random model of `config` and a tokenizer; the model."""
    model = tiny_model(config)
    model.save_pretrained(folder)
    save_tiny_tokenizer(folder)
    return model


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_read_back_is_the_model(family: str, tmp_path: Path) -> None:
    save_tiny_model(family, tmp_path / "model")
    original = open_model(tmp_path / "model")
    config, weights = written_and_read(tmp_path)
    # Gemma 3 has its pattern in the types of its layers, too.
    assert differing(original.config, config) <= UNWRITTEN | {"_sliding_window_pattern", "head_dim"}
    assert weights.keys() == original.weights().keys()
    for name, weight in original.weights().items():
        # Gemma's norms are stored plus one, which costs them a bit.
        bit = 2**-23 if family.startswith("gemma") and name.endswith("norm.weight") else 0
        torch.testing.assert_close(weights[name], weight, rtol=0, atol=bit)


def test_a_mistral_is_a_llama(tmp_path: Path) -> None:
    save_tiny_model("mistral", tmp_path / "model")
    _, weights = written_and_read(tmp_path)
    for name, weight in open_model(tmp_path / "model").weights().items():
        assert torch.equal(weights[name], weight)


def test_a_linear_rotary_scaling_is_written(tmp_path: Path) -> None:
    rope = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}
    frequencies = save_rotating(rope, tmp_path / "model")
    config, _ = written_and_read(tmp_path)
    assert torch.equal(build(config).model.rotary_emb.inv_freq, frequencies)


def test_the_rotary_factors_of_llama_3_are_written(tmp_path: Path) -> None:
    frequencies = save_rotating(LLAMA_3, tmp_path / "model")
    config, _ = written_and_read(tmp_path)
    buffers = rope_buffers(read_gguf(tmp_path / "written.gguf"), config)
    assert buffers
    for found in buffers.values():
        torch.testing.assert_close(found, frequencies)


def test_a_family_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    save_tiny_model("stablelm", tmp_path / "model")
    with pytest.raises(MissingError, match="stablelm"):
        write_gguf(str(tmp_path / "model"), None, tmp_path / "written.gguf")


def test_windows_that_cannot_be_written_are_told(tmp_path: Path) -> None:
    config = tiny_config("exaone4")
    config.sliding_window, config.layer_types = 8, ["sliding_attention", "full_attention"]
    save(config, tmp_path / "model")
    with pytest.raises(MissingError, match="windows of exaone4"):
        write_gguf(str(tmp_path / "model"), None, tmp_path / "written.gguf")


def test_a_rotary_scaling_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    rope = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}
    save_rotating(rope, tmp_path / "model")
    with pytest.raises(MissingError, match="dynamic"):
        write_gguf(str(tmp_path / "model"), None, tmp_path / "written.gguf")
