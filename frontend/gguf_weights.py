"""The weights of a GGUF file, as transformers has them.

llama.cpp's converter names tensors anew and changes some of them (convert_hf_to_gguf.py); this
undoes both. The names come from the `gguf` package's table, which the converter uses itself.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType
from torch import Tensor
from transformers import PreTrainedConfig

from llmc.frontend.gguf_file import GgufFile, GgufTensor
from llmc.frontend.loaded_model import outline, some_of, untied_state
from llmc.runtime.errors import UserError

_TORCH_TYPES = {
    GGMLQuantizationType.F32: torch.float32,
    GGMLQuantizationType.F16: torch.float16,
    GGMLQuantizationType.BF16: torch.bfloat16,
}
_BLOCK = re.compile(r"blk\.(\d+)\.")
_FUSED_EXPERTS = re.compile(r"model\.layers\.(\d+)\.mlp\.experts\.gate_up_proj")
_CONV1D = ("attn_output.weight", "attn_qkv.weight", "ffn_down.weight", "ffn_up.weight")
# Factors that divide the rotary frequencies, as Llama 3.1 has them.
_ROPE_FACTORS = "rope_freqs.weight"


@dataclass(frozen=True)
class GgufWeights:
    """Which of a file's tensors make which of the model's weights, checked against its shapes."""

    file: GgufFile
    config: PreTrainedConfig
    # By the name in the model's state_dict; two tensors are stacked along dimension 1.
    sources: Mapping[str, tuple[str, ...]]

    def read(self) -> dict[str, Tensor]:
        """The weights by the names of the model's `state_dict`, blocks as float32."""
        return {
            name: torch.cat([self._restored(source) for source in sources], dim=1)
            if len(sources) > 1
            else self._restored(sources[0])
            for name, sources in self.sources.items()
        }

    @property
    def storage(self) -> str:
        """The type that most of the bytes have: a torch type, or that of GGUF's blocks."""
        bytes_of: dict[GGMLQuantizationType, int] = {}
        for name in sum(self.sources.values(), ()):
            tensor = self.file.tensors[name]
            bytes_of[tensor.type] = bytes_of.get(tensor.type, 0) + tensor.data.nbytes
        most = max(bytes_of, key=bytes_of.__getitem__)
        return str(_TORCH_TYPES.get(most, most.name)).removeprefix("torch.")
