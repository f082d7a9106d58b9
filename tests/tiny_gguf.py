"""Writes models as GGUF files, as llama.cpp's converter (convert_hf_to_gguf.py) does."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType, GGUFValueType, GGUFWriter, TokenType
from transformers import PreTrainedConfig, PreTrainedModel

from tests.tiny_models import CHAT_TEMPLATE, VOCAB_SIZE, tiny_tokenizer

# The families that llama.cpp has under a name of its own.
ARCHITECTURES = {
    "gemma3_text": "gemma3",
    "hunyuan_v1_dense": "hunyuan-dense",
    "mixtral": "llama",
    "qwen3_moe": "qwen3moe",
}

_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "transformer.wte": "token_embd",
    "transformer.wpe": "position_embd",
    "transformer.ln_f": "output_norm",
}
_LAYER_NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.qkv_proj": "attn_qkv",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "self_attn.query_layernorm": "attn_q_norm",
    "self_attn.key_layernorm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.gate_up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "mlp.gate": "ffn_gate_inp",
    "block_sparse_moe.router": "ffn_gate_inp",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "attn.c_attn": "attn_qkv",
    "attn.c_proj": "attn_output",
    "mlp.c_fc": "ffn_up",
    "mlp.c_proj": "ffn_down",
    "ln_1": "attn_norm",
    "ln_2": "ffn_norm",
}
# Gemma 2 and 3 have a norm before and after each half of a layer, OLMo 2 and EXAONE 4 one after.
_NORMS_AFTER = {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}


def write_gguf(
    path: Path,
    model: PreTrainedModel,
    kind: GGMLQuantizationType = GGMLQuantizationType.F32,
    change: Callable[[GGUFWriter], None] = lambda writer: None,
) -> None:
    """Writes `model` with `tiny_tokenizer` to `path`, its matrices quantised to `kind`.

    `change` may add to the writer before the file is written.
    """
    config = model.config
    writer = GGUFWriter(path, ARCHITECTURES.get(config.model_type, config.model_type))
    _write_sizes(writer, config)
    _write_tokenizer(writer)
    tied = model.all_tied_weights_keys if config.tie_word_embeddings else {}
    for name, weight in model.state_dict().items():
        if name not in tied:
            for to, value in _as_in_llama_cpp(name, weight.detach().clone(), config):
                stored = kind if value.ndim > 1 else GGMLQuantizationType.F32
                writer.add_tensor(to, gguf.quants.quantize(value, stored), raw_dtype=stored)
    change(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def set_value(key: str, value: int | float | str | list) -> Callable[[GGUFWriter], None]:
    """A `change` of `write_gguf`: another value for `key`."""
    types = {int: GGUFValueType.UINT32, float: GGUFValueType.FLOAT32, str: GGUFValueType.STRING}

    def change(writer: GGUFWriter) -> None:
        del writer.kv_data[0][key]
        if isinstance(value, list):
            writer.add_array(key, value)
        else:
            writer.add_key_value(key, value, types[type(value)])

    return change


def drop(key: str) -> Callable[[GGUFWriter], None]:
    """A `change` of `write_gguf`: no value for `key`."""
    return lambda writer: writer.kv_data[0].pop(key)


def _write_sizes(writer: GGUFWriter, config: PreTrainedConfig) -> None:
    writer.add_context_length(config.max_position_embeddings)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_embedding_length(config.hidden_size)
    writer.add_head_count(config.num_attention_heads)
    if config.model_type == "gpt2":
        writer.add_feed_forward_length(config.n_inner)
        writer.add_layer_norm_eps(config.layer_norm_epsilon)
        return
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    head_dim = getattr(config, "head_dim", None)
    if head_dim:
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)
    writer.add_rope_dimension_count(head_dim or config.hidden_size // config.num_attention_heads)
    rope = config.rope_parameters
    writer.add_rope_freq_base(rope.get("full_attention", rope)["rope_theta"])
    if config.model_type in ("gemma2", "gemma3_text", "phi3"):
        writer.add_sliding_window(config.sliding_window or 0)
    if config.model_type == "gemma2":
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
    if config.model_type == "gemma3_text":
        writer.add_sliding_window_pattern(config.layer_types.index("full_attention") + 1)
    if config.model_type in ("granitemoe", "mixtral", "olmoe", "qwen3_moe"):
        writer.add_expert_count(getattr(config, "num_experts", None) or config.num_local_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
    if config.model_type == "qwen3_moe":
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    if config.model_type in ("granite", "granitemoe"):
        writer.add_attention_scale(config.attention_multiplier)
        writer.add_embedding_scale(config.embedding_multiplier)
        writer.add_residual_scale(config.residual_multiplier)
        writer.add_logit_scale(config.logits_scaling)


def _write_tokenizer(writer: GGUFWriter) -> None:
    tokenizer = tiny_tokenizer()
    vocabulary = tokenizer.get_vocab()
    tokens = sorted(vocabulary, key=vocabulary.__getitem__)
    tokens += [f"[PAD{i}]" for i in range(len(tokens), VOCAB_SIZE)]
    special = set(tokenizer.get_added_tokens_decoder())
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    kinds = [TokenType.CONTROL if i in special else TokenType.NORMAL for i in range(len(tokens))]
    writer.add_token_types(kinds)
    writer.add_token_merges([" ".join(merge) for merge in merges])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)


def _as_in_llama_cpp(
    name: str, weight: torch.Tensor, config: PreTrainedConfig
) -> Iterator[tuple[str, np.ndarray]]:
    """The GGUF tensors, one or two, that a weight of transformers becomes."""
    family = config.model_type
    if family.startswith("gemma") and name.endswith("norm.weight"):
        weight += 1
    if family == "gpt2" and ".c_" in name and name.endswith("weight"):
        weight = weight.t()
    turns_neighbours = family in ("llama", "mixtral", "granite", "granitemoe", "smollm3")
    if turns_neighbours and ".q_proj." in name:
        weight = _neighbours(weight, config.num_attention_heads)
    if turns_neighbours and ".k_proj." in name:
        weight = _neighbours(weight, config.num_key_value_heads)
    value = np.ascontiguousarray(weight.numpy())
    stem, _, suffix = name.rpartition(".")
    if stem in _NAMES:
        yield f"{_NAMES[stem]}.{suffix}", value
        return
    layer, part = name.removeprefix("model.layers.").removeprefix("transformer.h.").split(".", 1)
    if part.endswith("experts.gate_up_proj"):
        gate, up = np.split(value, 2, axis=1)
        yield f"blk.{layer}.ffn_gate_exps.weight", gate
        yield f"blk.{layer}.ffn_up_exps.weight", up
    elif part.endswith("experts.down_proj"):
        yield f"blk.{layer}.ffn_down_exps.weight", value
    else:
        has_norms_after = family in ("exaone4", "gemma2", "gemma3_text", "olmo2")
        names = _LAYER_NAMES | (_NORMS_AFTER if has_norms_after else {})
        yield f"blk.{layer}.{names[part.removesuffix('.' + suffix)]}.{suffix}", value


def _neighbours(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """Rows reordered so that the rotary embedding turns neighbours (`LlamaModel.permute`)."""
    halves = weight.reshape(heads, 2, -1, *weight.shape[1:])
    return halves.swapaxes(1, 2).reshape(weight.shape)
