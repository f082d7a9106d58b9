"""Random models of every family that the tests use, small enough to run in a blink."""

from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

VOCAB_SIZE = 320
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

_SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_MERGES = [("t", "h"), ("th", "e"), ("Ġ", "the"), ("a", "n"), ("i", "n"), ("Ġ", "in"), ("1", "2")]

_DECODER: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
}
_EXPERTS: dict[str, Any] = {"num_experts": 8, "num_experts_per_tok": 2}
_LATENT: dict[str, Any] = {
    "num_key_value_heads": 4,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 16,
    "moe_intermediate_size": 32,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "n_group": 2,
    "topk_group": 1,
    "first_k_dense_replace": 1,
}
# What exercises the family: windows shorter than the tests' texts, softcaps that bite, both kinds
# of layers, groups of experts, tied embeddings.
_FAMILIES: dict[str, dict[str, Any]] = {
    "llama": _DECODER,
    "qwen2": {**_DECODER, "tie_word_embeddings": True},
    "qwen3": {**_DECODER, "head_dim": 32},
    "mistral": {**_DECODER, "sliding_window": 8},
    "gemma": {**_DECODER, "head_dim": 32},
    "gemma2": {
        **_DECODER,
        "num_hidden_layers": 4,
        "head_dim": 32,
        "query_pre_attn_scalar": 32,
        "sliding_window": 8,
        "attn_logit_softcapping": 2.0,
        "final_logit_softcapping": 3.0,
    },
    "gemma3_text": {
        **_DECODER,
        "num_hidden_layers": 4,
        "head_dim": 32,
        "query_pre_attn_scalar": 32,
        "sliding_window": 8,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
    },
    "phi3": {**_DECODER, "sliding_window": 8},
    "gpt2": {
        "n_embd": 64,
        "n_layer": 2,
        "n_head": 4,
        "n_inner": 128,
        "n_positions": 128,
    },
    "gpt_neox": {
        **{key: _DECODER[key] for key in _DECODER if key != "num_key_value_heads"},
    },
    "olmo2": _DECODER,
    "stablelm": _DECODER,
    "ernie4_5": _DECODER,
    "smollm3": {**_DECODER, "num_hidden_layers": 4},
    "exaone4": {**_DECODER, "sliding_window": None, "layer_types": ["full_attention"] * 2},
    "hunyuan_v1_dense": {**_DECODER, "head_dim": 32},
    "granite": {
        **_DECODER,
        "attention_multiplier": 0.2,
        "embedding_multiplier": 3.0,
        "logits_scaling": 2.0,
        "residual_multiplier": 0.5,
    },
    "glm4": {**_DECODER, "head_dim": 32, "num_key_value_heads": 1},
    "cohere2": {
        **_DECODER,
        "sliding_window": 8,
        "layer_types": ["sliding_attention", "full_attention"],
        "logit_scale": 1.0,
    },
    "mixtral": {**_DECODER, **_EXPERTS, "num_local_experts": 4},
    "granitemoe": {
        **_DECODER,
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
        "attention_multiplier": 0.2,
        "embedding_multiplier": 3.0,
        "logits_scaling": 2.0,
        "residual_multiplier": 0.5,
    },
    "olmoe": {**_DECODER, **_EXPERTS, "num_key_value_heads": 4},
    "phimoe": {**_DECODER, "num_local_experts": 16, "num_experts_per_tok": 2},
    "qwen3_moe": {
        **_DECODER,
        **_EXPERTS,
        "head_dim": 32,
        "moe_intermediate_size": 32,
        "norm_topk_prob": True,
    },
    "deepseek_v2": {**_DECODER, **_LATENT, "topk_method": "group_limited_greedy"},
    "deepseek_v3": {**_DECODER, **_LATENT, "num_hidden_layers": 3},
    "glm4_moe": {
        **_DECODER,
        "num_hidden_layers": 3,
        "head_dim": 32,
        "moe_intermediate_size": 32,
        "n_routed_experts": 8,
        "num_experts_per_tok": 2,
        "n_group": 1,
        "topk_group": 1,
        "first_k_dense_replace": 1,
        "routed_scaling_factor": 2.5,
    },
}
FAMILIES = tuple(_FAMILIES)


def tiny_config(family: str) -> PreTrainedConfig:
    """The configuration of a model of `family` with vocabulary `VOCAB_SIZE`."""
    return AutoConfig.for_model(
        family,
        **_FAMILIES[family],
        vocab_size=VOCAB_SIZE,
        bos_token_id=None,
        eos_token_id=2,
        pad_token_id=None,
    )


def tiny_model(config: PreTrainedConfig, seed: int = 0) -> PreTrainedModel:
    """A float32 model of `config` in eval mode whose weights, norms and biases too, are random."""
    generator = torch.Generator().manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    model.requires_grad_(False)
    for name, weight in model.named_parameters():
        # Wide enough that attention and logits differ from uniform, near 1 where the norms are.
        spread = 0.2 if weight.ndim > 1 else 0.1
        weight.normal_(0, spread, generator=generator)
        if weight.ndim == 1 and name.endswith("weight"):
            weight.add_(1)
    for name, bias in model.named_buffers():
        if name.endswith("bias"):
            bias.normal_(0, 0.1, generator=generator)
    return model


def save_tiny_model(family: str, folder: Path, seed: int = 0, **options: Any) -> PreTrainedModel:
    """Saves a random model of `family` and its tokenizer as a Hugging Face folder; the model.

    `options` go to transformers' `save_pretrained`.
    """
    model = tiny_model(tiny_config(family), seed)
    model.save_pretrained(folder, **options)
    save_tiny_tokenizer(folder)
    return model


def tiny_tokenizer() -> Tokenizer:
    """A byte-level BPE tokenizer with three special tokens (ids 0 to 2) and a few merges."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = [*_SPECIAL_TOKENS, *letters, *(left + right for left, right in _MERGES)]
    tokenizer = Tokenizer(models.BPE({word: i for i, word in enumerate(words)}, _MERGES))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in _SPECIAL_TOKENS])
    return tokenizer


def save_tiny_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """Saves `tiny_tokenizer` with a chat template, as transformers does; the tokenizer."""
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=tiny_tokenizer(),
        bos_token="<|im_start|>",
        eos_token="<|im_end|>",
        chat_template=CHAT_TEMPLATE,
    )
    tokenizer.save_pretrained(folder)
    return tokenizer
