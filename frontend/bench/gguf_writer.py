"""Writes a Hugging Face model as a GGUF file, as llama.cpp's converter would, for llama.cpp.

The file has no tokenizer: benchmarks run token ids.
"""

from pathlib import Path

from gguf import MODEL_ARCH_NAMES, GGUFWriter, get_tensor_name_map
from torch import Tensor
from transformers import PreTrainedConfig

from llmc.frontend.bench.contender import MissingError
from llmc.frontend.source import open_model
from llmc.runtime.draft import replacing

# Families whose names in transformers are llama.cpp's, and whose configuration is all written here.
_FAMILIES = ("llama", "qwen2", "qwen3")


def write_gguf(model: str, layers: int | None, output: Path) -> None:
    """Writes the model called `model`, in float32, cut to its first `layers` layers where given.

    Raises MissingError for a family or a rotary scaling that is not known here.
    """
    loaded = open_model(model, layers)
    config = loaded.config
    if config.model_type not in _FAMILIES or config.rope_parameters["rope_type"] != "default":
        raise MissingError(f"llmc cannot write {config.model_type} models as GGUF")
    kind = next(kind for kind, name in MODEL_ARCH_NAMES.items() if name == config.model_type)
    names = get_tensor_name_map(kind, config.num_hidden_layers)
    with replacing(output) as draft:
        writer = GGUFWriter(draft, config.model_type)
        _add_metadata(writer, config)
        for name, tensor in loaded.weights().items():
            written = names.get_name(name, try_suffixes=(".weight", ".bias"))
            writer.add_tensor(written, _as_in_llama_cpp(tensor.float(), name, config).numpy())
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()


def _add_metadata(writer: GGUFWriter, config: PreTrainedConfig) -> None:
    head_dim = _head_dim(config)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_rope_dimension_count(head_dim)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("no_vocab")


def _as_in_llama_cpp(tensor: Tensor, name: str, config: PreTrainedConfig) -> Tensor:
    """The tensor with rows of a Llama's queries and keys in llama.cpp's rotary order."""
    if config.model_type != "llama" or not (".q_proj." in name or ".k_proj." in name):
        return tensor
    halves = tensor.reshape(-1, 2, _head_dim(config) // 2, *tensor.shape[1:])
    return halves.transpose(1, 2).reshape(tensor.shape).contiguous()


def _head_dim(config: PreTrainedConfig) -> int:
    return getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
