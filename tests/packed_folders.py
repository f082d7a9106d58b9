"""Hugging Face folders whose linear layers are packed into 4 bits, as GPTQ and AWQ document it.

https://github.com/AutoGPTQ/AutoGPTQ, auto_gptq/nn_modules/qlinear; and
https://github.com/casper-hansen/AutoAWQ, awq/modules/linear/gemm.py.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from tests.tiny_models import save_tiny_tokenizer, tiny_config, tiny_model

# What a layer's inputs are a multiple of: the largest group.
WIDTH = 128
_UNPACKED = ("embed", "norm", "lm_head", "gate.weight")


@dataclass(frozen=True)
class Layer:
    """Integers `[N, K]`, and of each group its zero point, an integer, and its scale, float16."""

    integers: np.ndarray
    zeros: np.ndarray
    scales: np.ndarray

    @classmethod
    def like(cls, shape: torch.Size, group: int, rng: np.random.Generator) -> "Layer":
        """Random, of about the size of a tiny model's weights."""
        outputs, inputs = shape
        groups = outputs, inputs // group
        scales = rng.uniform(0.02, 0.06, groups).astype(np.float16)
        return cls(rng.integers(0, 16, (outputs, inputs)), rng.integers(0, 16, groups), scales)

    def values(self) -> torch.Tensor:
        """What it stands for, float32 `[N, K]`."""
        group = self.integers.shape[1] // self.zeros.shape[1]
        scales, zeros = (np.repeat(each, group, axis=1) for each in (self.scales, self.zeros))
        return torch.from_numpy(scales.astype(np.float32) * (self.integers - zeros)).float()

    def gptq(self, zeros_less_one: bool) -> dict[str, torch.Tensor]:
        """The tensors of the layer."""
        outputs, inputs = self.integers.shape
        zeros = (self.zeros - zeros_less_one) % 16
        qweight = np.zeros((inputs // 8, outputs), np.uint32)
        for k in range(inputs):
            qweight[k // 8] |= self.integers[:, k].astype(np.uint32) << 4 * (k % 8)
        qzeros = np.zeros((zeros.shape[1], outputs // 8), np.uint32)
        for n in range(outputs):
            qzeros[:, n // 8] |= zeros[n].astype(np.uint32) << 4 * (n % 8)
        group = inputs // zeros.shape[1]
        return self._tensors(qweight, qzeros) | {
            "g_idx": torch.arange(inputs, dtype=torch.int32) // group
        }

    def awq(self) -> dict[str, torch.Tensor]:
        """The tensors of the layer."""
        return self._tensors(_interleaved(self.integers.T), _interleaved(self.zeros.T))

    def _tensors(self, qweight: np.ndarray, qzeros: np.ndarray) -> dict[str, torch.Tensor]:
        return {
            "qweight": torch.from_numpy(qweight.view(np.int32)),
            "qzeros": torch.from_numpy(qzeros.view(np.int32)),
            "scales": torch.from_numpy(np.ascontiguousarray(self.scales.T)),
        }


def _interleaved(rows: np.ndarray) -> np.ndarray:
    words = np.zeros((rows.shape[0], rows.shape[1] // 8), np.uint32)
    for word in range(words.shape[1]):
        for place, column in enumerate([0, 2, 4, 6, 1, 3, 5, 7]):
            words[:, word] |= rows[:, word * 8 + column].astype(np.uint32) << 4 * place
    return words


def write_packed(folder: Path, method: str, group: int, family: str = "llama") -> dict[str, Layer]:
    """Writes a tiny model of `family`; its packed layers, by the names of their weights.

    `method` is gptq, gptq_v2 or awq. `folder / "plain"` has the same model, not packed.
    """
    config = tiny_config(family)
    config.update({"hidden_size": WIDTH, "intermediate_size": 2 * WIDTH, "head_dim": WIDTH // 4})
    tiny_model(config).save_pretrained(folder)
    save_tiny_tokenizer(folder)
    path, rng = folder / "model.safetensors", np.random.default_rng(group)
    plain, packed, layers = load_file(path), {}, {}
    for name, weight in plain.items():
        if weight.ndim < 2 or any(part in name for part in _UNPACKED):
            plain[name] = packed[name] = weight.half()
            continue
        layers[name] = layer = Layer.like(weight.shape, group, rng)
        plain[name] = layer.values()
        parts = layer.awq() if method == "awq" else layer.gptq(method == "gptq")
        packed |= {f"{name.removesuffix('.weight')}.{part}": each for part, each in parts.items()}
    (folder / "plain").mkdir()
    for each in folder.glob("*.json"):
        (folder / "plain" / each.name).write_bytes(each.read_bytes())
    save_file(plain, folder / "plain" / path.name, metadata={"format": "pt"})
    save_file(packed, path, metadata={"format": "pt"})
    edit_settings(folder, **_settings(method, group))
    return layers


def edit_settings(folder: Path, **changes: Any) -> None:
    """Changes the `quantization_config` of a folder; None takes a setting away."""
    path = folder / "config.json"
    content = json.loads(path.read_text())
    settings = content.get("quantization_config", {}) | changes
    content["quantization_config"] = {
        name: each for name, each in settings.items() if each is not None
    }
    path.write_text(json.dumps(content))


def _settings(method: str, group: int) -> dict[str, Any]:
    common = {"quant_method": method.removesuffix("_v2"), "bits": 4, "group_size": group}
    if method == "awq":
        return {**common, "version": "gemm", "zero_point": True}
    return {**common, "checkpoint_format": method, "desc_act": False, "sym": False}
