"""How the weights of a model are named and laid out in a GGUF file.

llama.cpp's converter (convert_hf_to_gguf.py) renames tensors and changes some. The names come from
the `gguf` package's table, which the converter itself uses.
"""

import re
from functools import cached_property

import numpy as np
from gguf import MODEL_ARCH_NAMES, TensorNameMap, get_tensor_name_map
from torch import Tensor
from transformers import PreTrainedConfig

# The architectures that weights and tokenizers treat alike.
GEMMAS = frozenset({"gemma", "gemma2", "gemma3"})

# Divisors of the rotary frequencies: how Llama 3.1's scaling is written to a file.
ROPE_FACTORS = "rope_freqs.weight"

# Those whose rotary embedding turns neighbours, where that of transformers turns halves.
_TURNING_NEIGHBOURS = frozenset({"granite", "granitemoe", "llama", "smollm3"})

_GATE_UP_EXPERTS = re.compile(r"model\.layers\.(\d+)\.mlp\.experts\.gate_up_proj")
_GPT2_TRANSPOSED = ("attn_output.weight", "attn_qkv.weight", "ffn_down.weight", "ffn_up.weight")


class GgufLayout:
    """That of a file of `architecture`, for the model that `config` describes."""

    def __init__(self, architecture: str, config: PreTrainedConfig) -> None:
        self._architecture = architecture
        self._config = config

    def tensors(self, weight: str) -> tuple[str, ...]:
        """The file's tensors that make a weight of that `state_dict` name.

        Two are stacked along dimension 1. A name that llama.cpp does not know is the tensor's.
        """
        # Granite's name for the layer of experts, which the table has with others' parts alone.
        weight = weight.replace(".block_sparse_moe.", ".mlp.")
        if match := _GATE_UP_EXPERTS.fullmatch(weight):
            return tuple(f"blk.{match[1]}.ffn_{which}_exps.weight" for which in ("gate", "up"))
        name = self._names.get_name(weight, try_suffixes=(".weight", ".bias")) or weight
        # The stacked experts are parameters of their own, without a suffix.
        return (f"{name}.weight" if name.endswith("_exps") else name,)

    def is_transposed(self, tensor: str) -> bool:
        """Whether a tensor of that name has the weight's columns as rows."""
        return self._architecture == "gpt2" and tensor.endswith(_GPT2_TRANSPOSED)

    def order(self, tensor: str, rows: int) -> list[int] | None:
        """Where a weight's `rows` lie in the tensor of that name; None where they are in place."""
        heads = self._rotary_heads(tensor)
        if not heads:
            return None
        return np.arange(rows).reshape(heads, -1, 2).swapaxes(1, 2).reshape(-1).tolist()

    def as_in_transformers(self, tensor: str, value: Tensor) -> Tensor:
        """The weight that the file's tensor of that name holds."""
        if self.is_transposed(tensor):
            return value.t().contiguous()
        if self._has_one_added(tensor):
            return value - 1
        order = self.order(tensor, len(value))
        return value if order is None else value[order]

    def as_in_file(self, tensor: str, value: Tensor) -> Tensor:
        """What the file's tensor of that name holds for a weight."""
        if self.is_transposed(tensor):
            return value.t().contiguous()
        if self._has_one_added(tensor):
            return value + 1
        order = self.order(tensor, len(value))
        return value if order is None else value[np.argsort(order).tolist()]

    @cached_property
    def _names(self) -> TensorNameMap:
        kind = next(kind for kind, name in MODEL_ARCH_NAMES.items() if name == self._architecture)
        return get_tensor_name_map(kind, self._config.num_hidden_layers)

    def _has_one_added(self, tensor: str) -> bool:
        """Whether transformers adds 1 when it runs, and a file has it added."""
        return self._architecture in GEMMAS and tensor.endswith("norm.weight")

    def _rotary_heads(self, tensor: str) -> int:
        """How many heads a tensor makes whose rows lie in another order; 0 for any other."""
        if self._architecture not in _TURNING_NEIGHBOURS:
            return 0
        if ".attn_q." in tensor:
            return self._config.num_attention_heads
        return self._config.num_key_value_heads if ".attn_k." in tensor else 0
