"""Writes a Hugging Face model as a GGUF file, as llama.cpp's converter would, for llama.cpp.

The file has no tokenizer: benchmarks run token ids. llama.cpp ignores the windows of Mistral and
Phi-3.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from gguf import GGUFWriter, RopeScalingType
from torch import Tensor
from transformers import PreTrainedConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from llmc.frontend.bench.contender import MissingError
from llmc.frontend.gguf_config import NUMBERS, architecture_of
from llmc.frontend.gguf_layout import ROPE_FACTORS, GgufLayout
from llmc.frontend.source import open_model
from llmc.runtime.draft import replacing

# Families that are another one to llama.cpp.
_SAME = {"mistral": "llama"}


def write_gguf(model: str, layers: int | None, output: Path) -> None:
    """Writes the model called `model`, in float32, cut to its first `layers` layers where given.

    Raises MissingError for a family, a rotary scaling or windows that are not known here.
    """
    loaded = open_model(model, layers)
    config = loaded.config
    known = architecture_of(_SAME.get(config.model_type, config.model_type))
    if known is None:
        raise MissingError(f"llmc cannot write {config.model_type} models as GGUF")
    architecture, names = known
    has_windows = "sliding_attention" in (getattr(config, "layer_types", None) or ())
    if has_windows and "attention.sliding_window" not in names:
        raise MissingError(f"llmc cannot write the windows of {config.model_type} models as GGUF")
    layout = GgufLayout(architecture, config)
    with replacing(output) as draft:
        writer = GGUFWriter(draft, architecture)
        _add_metadata(writer, config, names)
        for name, value in loaded.weights().items():
            tensors = layout.tensors(name)
            for tensor, part in zip(tensors, _parts(value.float(), len(tensors)), strict=True):
                writer.add_tensor(tensor, layout.as_in_file(tensor, part).numpy())
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()


def _parts(value: Tensor, count: int) -> list[Tensor]:
    """The tensors that make a weight, which are stacked along dimension 1 where they are two."""
    return [part.contiguous() for part in value.chunk(count, dim=1)] if count > 1 else [value]


def _add_metadata(writer: GGUFWriter, config: PreTrainedConfig, names: Mapping[str, str]) -> None:
    for key, name in names.items():
        value = getattr(config, name)
        if name == "n_inner" and value is None:
            value = 4 * config.hidden_size
        add = writer.add_float32 if key.endswith(NUMBERS) else writer.add_uint32
        add(f"{writer.arch}.{key}", value)
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("no_vocab")
    if rope := getattr(config, "rope_parameters", None):
        _add_attention(writer, config)
        _add_rope(writer, config, rope.get("full_attention", rope))
    if writer.arch == "phi3":
        writer.add_sliding_window(config.sliding_window or 0)
    if local := (rope or {}).get("sliding_attention"):
        writer.add_rope_freq_base_swa(local["rope_theta"])
        writer.add_sliding_window_pattern(config.layer_types.index("full_attention") + 1)


def _add_attention(writer: GGUFWriter, config: PreTrainedConfig) -> None:
    head_dim = _head_dim(config)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_rope_dimension_count(head_dim)


def _add_rope(writer: GGUFWriter, config: PreTrainedConfig, rope: Mapping[str, Any]) -> None:
    writer.add_rope_freq_base(rope["rope_theta"])
    match rope["rope_type"]:
        case "default":
            pass
        case "linear":
            writer.add_rope_scaling_type(RopeScalingType.LINEAR)
            writer.add_rope_scaling_factor(rope["factor"])
        case "llama3":
            writer.add_tensor(ROPE_FACTORS, _rope_factors(config, rope["rope_theta"]).numpy())
        case other:
            raise MissingError(f"llmc cannot write rotary embeddings of the type {other} as GGUF")


def _rope_factors(config: PreTrainedConfig, theta: float) -> Tensor:
    """What a model's rotary frequencies are divided by."""
    scaled, _ = ROPE_INIT_FUNCTIONS[config.rope_parameters["rope_type"]](config, "cpu")
    head_dim = _head_dim(config)
    return theta ** -(torch.arange(0, head_dim, 2).float() / head_dim) / scaled


def _head_dim(config: PreTrainedConfig) -> int:
    return getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
