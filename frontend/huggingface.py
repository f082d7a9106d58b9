"""Reads a model from a Hugging Face folder: config.json, safetensors and a tokenizer."""

from functools import partial
from pathlib import Path

import transformers
from transformers import (
    CONFIG_MAPPING,
    MODEL_FOR_CAUSAL_LM_MAPPING,
    AutoConfig,
    PreTrainedConfig,
)

from llmc.frontend.huggingface_tokenizer import read_tokenizer
from llmc.frontend.huggingface_weights import find_checkpoint
from llmc.frontend.loaded_model import (
    CONFIG_ERRORS,
    LoadedModel,
    one_line,
    outline,
    quiet,
    truncated,
)
from llmc.frontend.text_files import read_json
from llmc.runtime.errors import UserError


def open_folder(folder: Path, layers: int | None = None) -> LoadedModel:
    """The model in `folder`, cut to its first `layers` layers where given.

    UserError if a file is missing or broken, the weights are pickled or quantised, the family is
    none that transformers has, or the tokenizer does not fit the model.
    """
    whole = _read_config(folder)
    checkpoint = find_checkpoint(folder)
    if whole.num_hidden_layers > len(checkpoint.types):
        raise UserError(
            f"{folder}: config.json states {whole.num_hidden_layers} layers, the safetensors hold"
            f" {len(checkpoint.types)} weights"
        )
    config = truncated(whole, layers, str(folder))
    outline(config, str(folder / "config.json"))
    tokenizer_json, facts = read_tokenizer(folder, config)
    return LoadedModel(
        name=folder.resolve().name,
        config=config,
        context=config.max_position_embeddings,
        storage=str(checkpoint.storage).removeprefix("torch."),
        tokenizer_json=tokenizer_json,
        tokenizer=facts,
        weights=partial(checkpoint.weights, config),
    )


def _read_config(folder: Path) -> PreTrainedConfig:
    """The configuration of the folder's text model."""
    path = folder / "config.json"
    if not path.is_file():
        raise UserError(f"{folder}: there is no config.json: it is not a Hugging Face model")
    content = read_json(path)
    if quantization := content.get("quantization_config"):
        method = quantization.get("quant_method") if isinstance(quantization, dict) else None
        raise UserError(
            f"{folder}: the weights are quantised ({method}), which llmc reads as GGUF only: use"
            " the original model or a GGUF file"
        )
    family = content.get("model_type")
    if not isinstance(family, str) or family not in CONFIG_MAPPING:
        raise _unknown_family(path, family)
    try:
        with quiet():
            config = AutoConfig.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False
            )
            config = config.get_text_config(decoder=True)  # of a multimodal model
    except (OSError, *CONFIG_ERRORS) as error:
        raise UserError(f"{path}: transformers does not take it: {one_line(error)}") from error
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        raise _unknown_family(path, family)
    for name in ("num_hidden_layers", "vocab_size", "max_position_embeddings"):
        value = getattr(config, name, None)
        if not isinstance(value, int) or value < 1:
            raise UserError(f"{path}: {name} is {value!r}, a positive number is expected")
    return config


def _unknown_family(path: Path, family: object) -> UserError:
    return UserError(
        f"{path}: model_type {family!r} is not supported: llmc reads the causal language models of"
        f" transformers {transformers.__version__}, such as llama, qwen2, gemma3 or mixtral"
    )
