"""The transformers configuration of a GGUF file, from its metadata.

Each architecture lists the metadata it may state; a file that states more is refused, for what is
not known here might change the result. What the metadata leave out, because llama.cpp has it in
its code (src/models), stands here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from transformers import AutoConfig, PreTrainedConfig

from llmc.frontend.gguf_file import GgufFile
from llmc.frontend.loaded_model import CONFIG_ERRORS, quiet
from llmc.runtime.errors import UserError, one_line

NUMBERS = ("epsilon", "scale", "softcapping")
"""How keys end of which the value is a float."""

# Metadata keys, without the architecture's prefix, and their names in transformers.
_SIZES = {
    "block_count": "num_hidden_layers",
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "attention.head_count": "num_attention_heads",
}
_DECODER = {
    **_SIZES,
    "feed_forward_length": "intermediate_size",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
}
_EXPERTS = {"expert_count": "num_experts", "expert_used_count": "num_experts_per_tok"}
_LOCAL_EXPERTS = _EXPERTS | {"expert_count": "num_local_experts"}
_GRANITE = {
    "attention.scale": "attention_multiplier",
    "embedding_scale": "embedding_multiplier",
    "logit_scale": "logits_scaling",
    "residual_scale": "residual_multiplier",
}
_SOFTCAPS = {
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
}
# Read by `_attention`, or known not to matter.
_COMMON = {
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scaling.factor",
    "rope.scaling.finetuned",
    "rope.scaling.original_context_length",
    "rope.scaling.type",
    "vocab_size",
}


@dataclass(frozen=True)
class _Architecture:
    """How one architecture's metadata become a configuration.

    `names` are metadata keys that must be there, with their names in transformers; `extra` are
    keys that `settings` reads if they are there. `settings` gives all else that the configuration
    needs, from the file and the values that `names` gave.
    """

    model_type: str
    names: Mapping[str, str]
    extra: frozenset[str] = frozenset()
    settings: Callable[["_Metadata", dict[str, Any]], dict[str, Any]] = lambda metadata, values: {}


class _Metadata:
    """The part of a file's metadata under its architecture's name, which keys leave out."""

    def __init__(self, file: GgufFile) -> None:
        self.file = file
        self.architecture = file.architecture

    def stated(self) -> list[str]:
        prefix = self.architecture + "."
        return [key.removeprefix(prefix) for key in self.file.metadata if key.startswith(prefix)]

    def integer(self, key: str, default: int | None = None) -> int:
        return self.file.value(f"{self.architecture}.{key}", int, default)

    def number(self, key: str, default: float | None = None) -> float:
        return self.file.value(f"{self.architecture}.{key}", float, default)

    def text(self, key: str, default: str) -> str:
        return self.file.value(f"{self.architecture}.{key}", str, default)

    def has_tensor(self, name: str) -> bool:
        return name in self.file.tensors

    def refused(self, what: str) -> UserError:
        return UserError(f"{self.file.path}: {what}")


def read_config(file: GgufFile) -> PreTrainedConfig:
    """The configuration of the model in `file`.

    UserError if its architecture is not known here, or its metadata lack something, make no sense,
    or state what is not known here.
    """
    metadata = _Metadata(file)
    name = metadata.architecture
    if name not in _ARCHITECTURES:
        raise metadata.refused(
            f"architecture {name!r} is not supported: llmc reads {', '.join(_ARCHITECTURES)}"
        )
    is_mixtral = name == "llama" and "expert_count" in metadata.stated()
    architecture = _MIXTRAL if is_mixtral else _ARCHITECTURES[name]
    known = _COMMON | architecture.names.keys() | architecture.extra
    if unknown := [key for key in metadata.stated() if key not in known]:
        raise metadata.refused(f"it states {unknown[0]}, which llmc does not know for {name}")
    values: dict[str, Any] = {
        to: metadata.number(key) if key.endswith(NUMBERS) else _size(metadata, key)
        for key, to in architecture.names.items()
    }
    if values["num_hidden_layers"] > len(file.tensors):
        raise metadata.refused(
            f"it states {values['num_hidden_layers']} layers, but has {len(file.tensors)} tensors"
        )
    values |= architecture.settings(metadata, values)
    try:
        with quiet():
            return AutoConfig.for_model(
                architecture.model_type,
                **values,
                vocab_size=_vocab_size(metadata),
                tie_word_embeddings=not metadata.has_tensor("output.weight"),
                bos_token_id=None,
                eos_token_id=None,
                pad_token_id=None,
            )
    except CONFIG_ERRORS as error:
        raise metadata.refused(f"no model can be built from it: {one_line(error)}") from error


def architecture_of(family: str) -> tuple[str, Mapping[str, str]] | None:
    """The architecture that files state of a family of transformers, None where none is known.

    With the metadata keys that such a file must state, and their names in a configuration.
    """
    architectures = [("llama", _MIXTRAL), *_ARCHITECTURES.items()]
    for name, architecture in architectures:
        if architecture.model_type == family:
            return name, architecture.names
    return None


def _size(metadata: _Metadata, key: str, default: int | None = None) -> int:
    value = metadata.integer(key, default)
    if value < 1:
        raise metadata.refused(f"{key} is {value}")
    return value


def _vocab_size(metadata: _Metadata) -> int:
    embedding = metadata.file.tensors.get("token_embd.weight")
    if embedding is None or len(embedding.shape) != 2:
        raise metadata.refused("it has no matrix token_embd.weight")
    return embedding.shape[0]


def _attention(metadata: _Metadata, values: dict[str, Any]) -> dict[str, Any]:
    """Heads and rotary embedding, which all architectures but GPT-2 state alike."""
    heads = values["num_attention_heads"]
    head_dim = _size(metadata, "attention.key_length", max(values["hidden_size"] // heads, 1))
    if head_dim % 2:
        raise metadata.refused(f"its head size {head_dim} is odd: a rotary embedding turns pairs")
    for key in ("attention.value_length", "rope.dimension_count"):
        if metadata.integer(key, head_dim) != head_dim:
            raise metadata.refused(f"its {key} is not its head size {head_dim}, as llmc needs it")
    return {
        "num_key_value_heads": _size(metadata, "attention.head_count_kv", heads),
        "head_dim": head_dim,
        "rope_parameters": _rope(metadata),
    }


def _rope(metadata: _Metadata) -> dict[str, Any]:
    theta = metadata.number("rope.freq_base", 10000.0)
    if theta <= 0:
        raise metadata.refused(f"rope.freq_base is {theta}")
    # llama.cpp takes a factor without a type to be linear.
    scaling = metadata.text("rope.scaling.type", "linear")
    if scaling == "none":
        return {"rope_type": "default", "rope_theta": theta}
    if scaling == "linear":
        factor = metadata.number("rope.scaling.factor", 1.0) or 1.0  # 0 stands for none
        if factor < 0:
            raise metadata.refused(f"rope.scaling.factor is {factor}")
        if factor == 1.0:
            return {"rope_type": "default", "rope_theta": theta}
        return {"rope_type": "linear", "rope_theta": theta, "factor": factor}
    raise metadata.refused(f"its rotary embedding is scaled by {scaling!r}; llmc knows 'linear'")


def _llama(metadata: _Metadata, values: dict[str, Any]) -> dict[str, Any]:
    return {
        **_attention(metadata, values),
        "attention_bias": metadata.has_tensor("blk.0.attn_q.bias"),
        "mlp_bias": metadata.has_tensor("blk.0.ffn_up.bias"),
    }


def _qwen3moe(metadata: _Metadata, values: dict[str, Any]) -> dict[str, Any]:
    return _attention(metadata, values) | {"norm_topk_prob": True}


def _phi3(metadata: _Metadata, values: dict[str, Any]) -> dict[str, Any]:
    window = metadata.integer("attention.sliding_window", 0)  # 0 stands for none
    return _attention(metadata, values) | {"sliding_window": window or None}


def _exaone4(metadata: _Metadata, values: dict[str, Any]) -> dict[str, Any]:
    kinds = ["full_attention"] * values["num_hidden_layers"]
    return _attention(metadata, values) | {"sliding_window": None, "layer_types": kinds}


def _gemma2(metadata: _Metadata, values: dict[str, Any]) -> dict[str, Any]:
    attention = _attention(metadata, values)
    is_27b = values["num_hidden_layers"] == 46
    scale = values["hidden_size"] // values["num_attention_heads"]
    return attention | {"query_pre_attn_scalar": scale if is_27b else attention["head_dim"]}


def _gemma3(metadata: _Metadata, values: dict[str, Any]) -> dict[str, Any]:
    attention = _attention(metadata, values)
    is_27b = values["num_hidden_layers"] == 62
    scale = values["hidden_size"] // values["num_attention_heads"]
    local = metadata.number("rope.freq_base_swa", 10000.0)
    return attention | {
        "query_pre_attn_scalar": scale if is_27b else attention["head_dim"],
        "sliding_window_pattern": _size(metadata, "attention.sliding_window_pattern", 6),
        "rope_parameters": {
            "full_attention": attention["rope_parameters"],
            "sliding_attention": {"rope_type": "default", "rope_theta": local},
        },
    }


# A file says "llama" of it too, and states experts.
_MIXTRAL = _Architecture("mixtral", _DECODER | _EXPERTS, settings=_attention)
_ARCHITECTURES = {
    "llama": _Architecture("llama", _DECODER, settings=_llama),
    "qwen2": _Architecture("qwen2", _DECODER, settings=_attention),
    "qwen3": _Architecture("qwen3", _DECODER, settings=_attention),
    "qwen3moe": _Architecture(
        "qwen3_moe",
        _DECODER | _EXPERTS | {"expert_feed_forward_length": "moe_intermediate_size"},
        settings=_qwen3moe,
    ),
    "olmo2": _Architecture("olmo2", _DECODER, settings=_attention),
    "olmoe": _Architecture("olmoe", _DECODER | _EXPERTS, settings=_attention),
    "smollm3": _Architecture("smollm3", _DECODER, settings=_attention),
    "granite": _Architecture("granite", _DECODER | _GRANITE, settings=_llama),
    "granitemoe": _Architecture(
        "granitemoe", _DECODER | _GRANITE | _LOCAL_EXPERTS, settings=_attention
    ),
    "ernie4_5": _Architecture("ernie4_5", _DECODER, settings=_attention),
    "exaone4": _Architecture("exaone4", _DECODER, settings=_exaone4),
    "hunyuan-dense": _Architecture("hunyuan_v1_dense", _DECODER, settings=_attention),
    "phi3": _Architecture(
        "phi3", _DECODER, frozenset({"attention.sliding_window"}), settings=_phi3
    ),
    "gemma": _Architecture("gemma", _DECODER, settings=_attention),
    "gemma2": _Architecture(
        "gemma2",
        _DECODER | _SOFTCAPS | {"attention.sliding_window": "sliding_window"},
        settings=_gemma2,
    ),
    "gemma3": _Architecture(
        "gemma3_text",
        _DECODER | {"attention.sliding_window": "sliding_window"},
        frozenset({"attention.sliding_window_pattern", "rope.freq_base_swa"}),
        settings=_gemma3,
    ),
    "gpt2": _Architecture(
        "gpt2",
        _SIZES
        | {
            "feed_forward_length": "n_inner",
            "attention.layer_norm_epsilon": "layer_norm_epsilon",
        },
    ),
}
