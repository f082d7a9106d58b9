"""Reads a model from a Hugging Face folder: config.json, safetensors and a tokenizer."""

from functools import partial
from pathlib import Path
from typing import Any

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
    outline,
    quiet,
    truncated,
)
from llmc.frontend.packing import Packing, read_packing
from llmc.frontend.text_files import read_json
from llmc.runtime.errors import UserError, one_line


def open_folder(folder: Path, layers: int | None = None) -> LoadedModel:
    """The model in `folder`, cut to its first `layers` layers where given.

    UserError if a file is missing or broken, the weights are pickled, or quantised in a way that
    llmc does not read, the family is none that transformers has, or the tokenizer does not fit the
    model.
    """
    whole, packing = _read_config(folder)
    checkpoint = find_checkpoint(folder, packing)
    if whole.num_hidden_layers > len(checkpoint.types):
        raise UserError(
            f"{folder}: config.json states {whole.num_hidden_layers} layers, the safetensors hold"
            f" {len(checkpoint.types)} weights"
        )
    config = truncated(whole, layers, str(folder))
    outline(config, str(folder / "config.json"))
    tokenizer_json, facts = read_tokenizer(folder, config)
    storage = str(checkpoint.storage).removeprefix("torch.")
    return LoadedModel(
        name=folder.resolve().name,
        config=config,
        context=config.max_position_embeddings,
        storage=packing.format.name.upper() if packing else storage,
        tokenizer_json=tokenizer_json,
        tokenizer=facts,
        weights=partial(checkpoint.weights, config),
        formats=checkpoint.formats(config),
        read_blocks=partial(checkpoint.blocks, config) if packing else None,
    )


def _read_config(folder: Path) -> tuple[PreTrainedConfig, Packing | None]:
    """The configuration of the folder's text model, and how its linear layers are packed."""
    path = folder / "config.json"
    if not path.is_file():
        raise UserError(f"{folder}: there is no config.json: it is not a Hugging Face model")
    content = read_json(path)
    packing = read_packing(path, content)
    family = content.get("model_type")
    if not isinstance(family, str) or family not in CONFIG_MAPPING:
        raise _unknown_family(path, family)
    try:
        with quiet():
            whole = AutoConfig.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False
            )
            config = whole.get_text_config(decoder=True)  # of a multimodal model
            _inherit_ties(content, whole, config)
            # With it transformers would have another package unpack the weights.
            vars(config).pop("quantization_config", None)
    except (OSError, *CONFIG_ERRORS) as error:
        raise UserError(f"{path}: transformers does not take it: {one_line(error)}") from error
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        raise _unknown_family(path, family)
    for name in ("num_hidden_layers", "vocab_size", "max_position_embeddings"):
        value = getattr(config, name, None)
        if value is None:
            raise UserError(
                f"{path}: {name} is missing, and llmc takes no {family} model"
                " without it, such as those with ALiBi positions"
            )
        if not isinstance(value, int) or value < 1:
            raise UserError(f"{path}: {name} is {value!r}, a positive number is expected")
    return config, packing


def _inherit_ties(content: dict[str, Any], whole: PreTrainedConfig, text: PreTrainedConfig) -> None:
    """Ties the head of a text model as the file says of the multimodal one, where of that alone.

    Transformers does so to the whole model.
    """
    key = next((key for key, value in vars(whole).items() if value is text), None)
    ties, own = content.get("tie_word_embeddings"), content.get(key or "")
    if isinstance(ties, bool) and isinstance(own, dict) and "tie_word_embeddings" not in own:
        text.tie_word_embeddings = ties


def _unknown_family(path: Path, family: object) -> UserError:
    return UserError(
        f"{path}: model_type {family!r} is not supported: llmc reads the causal language models of"
        f" transformers {transformers.__version__}, such as llama, qwen2, gemma3 or mixtral"
    )
