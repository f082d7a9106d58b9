"""PyTorch eager as a contender: transformers' own model, with its own attention and cache."""

from typing import Any

import torch
from transformers import DynamicCache

from llmc.frontend.bench.contender import Contender, Rows, all_bytes
from llmc.frontend.lowering import stored_dtype
from llmc.frontend.options import CompileOptions
from llmc.frontend.source import open_model

_TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


class TorchEager(Contender):
    """The model with the attention that transformers chooses, in the type of our matrices.

    Where that is a type of blocks, which PyTorch has no kernels for, it is float32.
    """

    def __init__(self, model: str, options: dict[str, Any], threads: int) -> None:
        """Reads the weights. UserError for a model that is none."""
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        chosen = CompileOptions(**options)
        loaded = open_model(model, chosen.layers)
        self.version = f"torch {torch.__version__}"
        self.weights = stored_dtype(loaded, chosen)
        if self.weights not in _TYPES:
            self.weights = "f32"
        self._model = loaded.skeleton(attn_implementation=None)
        self._model.load_state_dict(loaded.weights(), strict=False, assign=True)
        self._model.tie_weights()
        self._model.to(_TYPES[self.weights])
        embedding = self._model.get_input_embeddings().weight
        head = self._model.get_output_embeddings().weight
        read = {
            name: weight.nbytes
            for name, weight in self._model.named_parameters()
            if head is embedding or weight is not embedding
        }
        self.weight_bytes = all_bytes(read)

    def clear(self, sequences: int, capacity: int) -> None:
        """Begins a new cache, which grows as tokens come."""
        self._cache = DynamicCache(config=self._model.config)

    def prefill(self, rows: Rows, past: int) -> list[int]:
        """All sequences in one call; only the last token's logits are computed."""
        output = self._model(
            torch.tensor(rows), past_key_values=self._cache, use_cache=True, logits_to_keep=1
        )
        return output.logits[:, -1].argmax(-1).tolist()

    def decode(self, tokens: list[int], past: int) -> list[int]:
        """One step of all sequences."""
        return self.prefill([[token] for token in tokens], past)
