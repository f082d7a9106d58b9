"""Linear layers as GPTQ and AWQ store them: 4-bit integers in words, scales and zero points.

Of N outputs, K inputs and groups of G of these, both store a weight's transpose; a word, int32,
holds eight integers, from its lowest bits on:

    scales  [K / G, N]     floats
    qzeros  [K / G, N / 8] zero points of neighbouring outputs
    qweight [K / 8, N]     GPTQ: words of neighbouring inputs; as are the outputs in its qzeros
            [K, N / 8]     AWQ: words of neighbouring outputs, in the order 0, 2, 4, 6, 1, 3, 5, 7,
                           as are those in its qzeros
    g_idx   [K]            GPTQ: the group of each input

A weight is `scale * (integer - zero point)`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from llmc.frontend.loaded_model import shape_text
from llmc.frontend.packing import Packing
from llmc.runtime.errors import UserError

_WORD = 8
"""The integers of a word."""

_PARTS = ("qweight", "qzeros", "scales", "g_idx")
_FLOATS = ("F16", "BF16", "F32")
_AWQ_PLACES = [0, 4, 1, 5, 2, 6, 3, 7]
"""Where in a word of AWQ each of its eight neighbours lies."""


def is_part(name: str) -> bool:
    """Whether a tensor of that name is a part of a packed layer."""
    return name.rpartition(".")[2] in _PARTS


@dataclass(frozen=True)
class PackedLinear:
    """A layer whose parts are not read yet: slices of safetensors files.

    `name`, with the folder before it, is what errors begin with.
    """

    name: str
    packing: Packing
    qweight: Any
    qzeros: Any
    scales: Any
    g_idx: Any = None

    @property
    def shape(self) -> tuple[int, int]:
        """N, K; right once `check` has passed."""
        rows, outputs = self.qweight.get_shape()
        if self.packing.method == "gptq":
            return outputs, rows * _WORD
        return outputs * _WORD, rows

    def check(self) -> None:
        """UserError where types or shapes of the parts are none of a layer in such groups."""
        self._require_type("qweight", "I32")
        self._require_type("qzeros", "I32")
        self._require_type("scales", *_FLOATS)
        if len(self.qweight.get_shape()) != 2:
            raise self._fault(f"qweight is {self.qweight.get_shape()}, a matrix is expected")
        (outputs, inputs), group = self.shape, self.packing.format.values
        if 0 in (outputs, inputs) or inputs % group or outputs % _WORD:
            raise self._fault(f"{outputs}x{inputs} weights are no whole groups of {group}")
        self._require_shape("qzeros", inputs // group, outputs // _WORD)
        self._require_shape("scales", inputs // group, outputs)
        if self.g_idx is not None:
            self._require_type("g_idx", "I32")
            self._require_shape("g_idx", inputs)

    def placeholder(self, dtype: torch.dtype) -> Tensor:
        """A tensor like the weight, in the memory of one number."""
        return torch.zeros(1, dtype=dtype).expand(self.shape)

    def blocks(self) -> np.ndarray:
        """The groups as blocks, `[N, K / G]`: the integers and scales as they are stored.

        A block's minimum is `-scale * zero point`, rounded to float16; so are scales that are
        stored as floats of another type.
        """
        integers, scales, zeros = self._read()
        format_ = self.packing.format
        blocks = np.empty(scales.shape, format_.dtype)
        with np.errstate(all="ignore"):  # what is no number is found below
            blocks["scale"] = scales
            blocks["minimum"] = -blocks["scale"].astype(np.float32) * zeros
        if not all(np.isfinite(blocks[field]).all() for field in format_.floats):
            raise self._fault("its scales are larger than float16 holds")
        blocks["packed"] = format_.pack(integers)
        return blocks

    def values(self) -> Tensor:
        """The weight `[N, K]` in float32, exactly."""
        integers, scales, zeros = self._read()
        values = scales[..., None] * (integers.astype(np.float32) - zeros[..., None])
        return torch.from_numpy(values.reshape(len(values), -1))

    def _read(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Integers uint8 `[N, K / G, G]`, scales and zero points float32 `[N, K / G]`."""
        group = self.packing.format.values
        self._check_order()
        scales = self.scales[:].float().numpy().T
        if not np.isfinite(scales).all():
            raise self._fault("its scales hold what is no number")
        words, zeros = self.qweight[:].numpy(), self._in_order(self.qzeros[:].numpy()).T
        if self.packing.zeros_less_one:
            zeros = zeros + 1 & 15  # none is more than 15: 0 less one is stored as 15
        is_gptq = self.packing.method == "gptq"
        integers = _unpacked(words.T) if is_gptq else self._in_order(words).T
        integers = np.ascontiguousarray(integers).reshape(*scales.shape, group)
        return integers, scales, zeros.astype(np.float32)

    def _in_order(self, words: np.ndarray) -> np.ndarray:
        """The integers of neighbouring outputs, `[..., N / 8]` -> uint8 `[..., N]`."""
        integers = _unpacked(words)
        if self.packing.method == "gptq":
            return integers
        return integers.reshape(*words.shape, _WORD)[..., _AWQ_PLACES].reshape(integers.shape)

    def _check_order(self) -> None:
        if self.g_idx is None:
            return
        expected = np.arange(self.shape[1]) // self.packing.format.values
        if not np.array_equal(self.g_idx[:].numpy(), expected):
            raise self._fault(
                "its groups are in the order of activations (desc_act), which llmc does not read:"
                " use a model quantised without"
            )

    def _require_type(self, part: str, *types: str) -> None:
        found = getattr(self, part).get_dtype()
        if found not in types:
            raise self._fault(f"{part} is stored as {found}, not {' or '.join(types)}")

    def _require_shape(self, part: str, *expected: int) -> None:
        found = tuple(getattr(self, part).get_shape())
        if found != expected:
            raise self._fault(f"{part} is {shape_text(found)}, not {shape_text(expected)}")

    def _fault(self, text: str) -> UserError:
        return UserError(f"{self.name} ({self.packing.method}): {text}")


def take_packed(slices: dict[str, Any], packing: Packing, folder: Path) -> dict[str, PackedLinear]:
    """Takes the parts of packed layers out of `slices`; the layers, by the names of their weights.

    UserError, which begins with `folder`, where a layer lacks a part, or its parts do not fit.
    """
    packed: dict[str, PackedLinear] = {}
    for layer in dict.fromkeys(name.rpartition(".")[0] for name in slices if is_part(name)):
        name = f"{folder}: {layer}"
        parts = {part: slices.pop(f"{layer}.{part}", None) for part in _PARTS}
        if missing := [part for part in _PARTS[:3] if parts[part] is None]:
            raise UserError(f"{name} ({packing.method}) lacks {', '.join(missing)}")
        packed[f"{layer}.weight"] = PackedLinear(name, packing, **parts)
    for linear in packed.values():
        linear.check()
    return packed


def _unpacked(words: np.ndarray) -> np.ndarray:
    """The integers of int32 `[..., C]` from the lowest bits of each on, uint8 `[..., 8 C]`."""
    bytes_ = np.ascontiguousarray(words).view(np.uint8)
    return np.stack([bytes_ & 15, bytes_ >> 4], -1).reshape(*words.shape[:-1], -1)
