"""Blocks of a GGUF file as those blocks of `dialects.blocks` that hold the same integers.

Layouts: https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from gguf import GGMLQuantizationType
from gguf.quants import IQ4_NL, Q4_K

from llmc.dialects.blocks import Q4_0, Q4_1, Q8_0, BlockFormat, by_slabs


@dataclass(frozen=True)
class KeptBlocks:
    """How blocks of a type of GGUF, elements of `dtype`, are kept: in `format`.

    `convert` makes some blocks of `format` of each: `[..., B]` -> `[..., K / G]`; None where they
    are such.
    """

    format: BlockFormat
    dtype: np.dtype
    convert: Callable[[np.ndarray], np.ndarray] | None = None

    def blocks(self, data: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """The bytes of a tensor of `shape` `[..., K]` as blocks `[..., K / G]` of `format`.

        Scales and minima that are no float16 are rounded to the nearest, infinity among them.
        """
        blocks = data.view(self.dtype).reshape(*shape[:-1], -1)
        return np.concatenate(by_slabs(self.convert, blocks)) if self.convert else blocks


_Q4_K = np.dtype(
    [("scale", "<f2"), ("minimum", "<f2"), ("factors", "u1", 12), ("packed", "u1", (4, 32))]
)
_Q5_0 = np.dtype([("scale", "<f2"), ("upper", "u1", 4), ("packed", "u1", 16)])
_IQ4_NL = np.dtype([("scale", "<f2"), ("packed", "u1", 16)])


def _from_q4_k(blocks: np.ndarray) -> np.ndarray:
    """256 values have a scale and a minimum, times 6 bits each of every 32."""
    scales, minima = Q4_K.get_scale_min(blocks["factors"].reshape(-1, 12))
    parts = np.zeros((*blocks.shape, 8), Q4_1.dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        for field, factors in (("scale", scales), ("minimum", -minima.astype(np.float32))):
            shared = blocks[field].astype(np.float32)[..., None]
            parts[field] = shared * factors.reshape(parts.shape)
    stored = np.stack(_halves(blocks["packed"]), axis=-2)
    parts["packed"] = Q4_1.pack(stored.reshape(*parts.shape, 32))
    return parts.reshape(*blocks.shape[:-1], -1)


def _from_q5_0(blocks: np.ndarray) -> np.ndarray:
    upper = np.unpackbits(blocks["upper"], axis=-1, bitorder="little")
    lower = np.concatenate(_halves(blocks["packed"]), axis=-1)
    return _of_bytes(blocks["scale"], (lower | upper << 4).view(np.int8) - np.int8(16))


def _from_iq4_nl(blocks: np.ndarray) -> np.ndarray:
    numbers = np.concatenate(_halves(blocks["packed"]), axis=-1)
    return _of_bytes(blocks["scale"], np.array(IQ4_NL.kvalues, np.int8)[numbers])


def _halves(packed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The lower and the upper 4 bits of each byte."""
    return packed & 15, packed >> 4


def _of_bytes(scale: np.ndarray, integers: np.ndarray) -> np.ndarray:
    blocks = np.zeros(scale.shape, Q8_0.dtype)
    blocks["scale"] = scale
    blocks["packed"] = integers.view(np.uint8)
    return blocks


KEPT = {
    GGMLQuantizationType.Q4_0: KeptBlocks(Q4_0, Q4_0.dtype),
    GGMLQuantizationType.Q4_1: KeptBlocks(Q4_1, Q4_1.dtype),
    GGMLQuantizationType.Q8_0: KeptBlocks(Q8_0, Q8_0.dtype),
    GGMLQuantizationType.Q4_K: KeptBlocks(Q4_1, _Q4_K, _from_q4_k),
    GGMLQuantizationType.Q5_0: KeptBlocks(Q8_0, _Q5_0, _from_q5_0),
    GGMLQuantizationType.IQ4_NL: KeptBlocks(Q8_0, _IQ4_NL, _from_iq4_nl),
}
"""How the types are kept of which a format has the integers; of others it has none."""
