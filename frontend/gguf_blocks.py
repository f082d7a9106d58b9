"""Blocks of a GGUF file as those blocks of `dialects.blocks` that hold the same integers.

Layouts: https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from gguf import GGMLQuantizationType
from gguf.quants import IQ4_NL, Q4_K

from llmc.dialects.blocks import (
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q6_G16,
    Q8_0,
    BlockFormat,
    by_slabs,
)


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


_K_VALUES = 256
"""Of a block of the types called K."""

_OF_K = [("scale", "<f2"), ("minimum", "<f2"), ("factors", "u1", 12)]
_Q3_K = np.dtype(
    [
        ("upper", "u1", 32),
        ("packed", "u1", (2, 1, 32)),
        ("factors", "u1", 12),
        ("scale", "<f2"),
    ]
)
_Q4_K = np.dtype([*_OF_K, ("packed", "u1", (4, 32))])
_Q5_K = np.dtype([*_OF_K, ("upper", "u1", 32), ("packed", "u1", (4, 32))])
_Q5_0 = np.dtype([("scale", "<f2"), ("upper", "u1", 4), ("packed", "u1", 16)])
_Q5_1 = np.dtype([("scale", "<f2"), ("minimum", "<f2"), ("upper", "u1", 4), ("packed", "u1", 16)])
_Q6_K = np.dtype(
    [
        ("packed", "u1", (2, 2, 32)),
        ("upper", "u1", (2, 1, 32)),
        ("factors", "i1", 16),
        ("scale", "<f2"),
    ]
)
_IQ4_NL = np.dtype([("scale", "<f2"), ("packed", "u1", 16)])


def _from_q4_k(blocks: np.ndarray) -> np.ndarray:
    return _with_minima(blocks, _pairs_of_32(blocks), Q4_1)


def _from_q5_k(blocks: np.ndarray) -> np.ndarray:
    return _with_minima(blocks, _pairs_of_32(blocks) | _bits_of_32(blocks["upper"]) << 4, Q5_1)


def _with_minima(blocks: np.ndarray, stored: np.ndarray, format_: BlockFormat) -> np.ndarray:
    """As `_in_blocks`; of every 32 values, scale and minimum have 6 bits of `factors` each."""
    scales, minima = Q4_K.get_scale_min(blocks["factors"].reshape(-1, 12))
    return _in_blocks(blocks, stored, format_, scale=scales, minimum=-minima.astype(np.float32))


def _in_blocks(
    blocks: np.ndarray, stored: np.ndarray, format_: BlockFormat, **factors: np.ndarray
) -> np.ndarray:
    """The 256 integers `stored` of each of `blocks`, in as many of `format_` as they make.

    Their floats are the `factors`, by field, of the one that 256 values share.
    """
    parts = np.zeros((*blocks.shape, _K_VALUES // format_.values), format_.dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        for field, each in factors.items():
            shared = blocks[field].astype(np.float32)[..., None]
            parts[field] = shared * each.reshape(parts.shape)
    parts["packed"] = format_.pack(stored.reshape(*parts.shape, format_.values))
    return parts.reshape(*blocks.shape[:-1], -1)


def _pairs_of_32(blocks: np.ndarray) -> np.ndarray:
    """The 4 bits of 256 values, of which 32 and the next 32 share bytes: `[..., 8, 32]`."""
    return np.stack(_halves(blocks["packed"]), axis=-2).reshape(*blocks.shape, 8, 32)


def _from_q5(blocks: np.ndarray, format_: BlockFormat) -> np.ndarray:
    """The fifth bits of 32 values lie in their order."""
    upper = np.unpackbits(blocks["upper"], axis=-1, bitorder="little")
    lower = np.concatenate(_halves(blocks["packed"]), axis=-1)
    kept = np.zeros(blocks.shape, format_.dtype)
    for field in format_.floats:
        kept[field] = blocks[field]
    kept["packed"] = format_.pack(lower | upper << 4)
    return kept


def _from_q6_k(blocks: np.ndarray) -> np.ndarray:
    """A scale has 8 bits of `factors` for every 16 values.

    Of four times 32 values, twice, the lower 4 bits of the first two share bytes with those of the
    others, and the upper 2 of all four.
    """
    lower = np.concatenate(_halves(blocks["packed"]), axis=-2)
    stored = lower | _quarters(blocks["upper"]) << 4
    return _in_blocks(blocks, stored, Q6_G16, scale=blocks["factors"])


def _from_q3_k(blocks: np.ndarray) -> np.ndarray:
    """A scale has 6 bits of `factors` for every 16 values, stored as q6_g16 stores 16 integers.

    Of four times 32 values, twice, the lower 2 bits share bytes; of all 32 times 8 the third ones.
    """
    third = _bits_of_32(blocks["upper"])
    lower = _quarters(blocks["packed"]).reshape(third.shape)
    stored = (lower | third << 2) + np.uint8(Q6_G16.offset - 4)
    factors = Q6_G16.unpack(blocks["factors"]).view(np.int8) - np.int8(Q6_G16.offset)
    return _in_blocks(blocks, stored, Q6_G16, scale=factors)


def _from_iq4_nl(blocks: np.ndarray) -> np.ndarray:
    numbers = np.concatenate(_halves(blocks["packed"]), axis=-1)
    kept = np.zeros(blocks.shape, Q8_0.dtype)
    kept["scale"] = blocks["scale"]
    kept["packed"] = np.array(IQ4_NL.kvalues, np.int8)[numbers].view(np.uint8)
    return kept


def _bits_of_32(upper: np.ndarray) -> np.ndarray:
    """The bits of each byte, the lowest first: `[..., 32]` -> `[..., 8, 32]`."""
    return np.unpackbits(upper[..., None, :], axis=-2, bitorder="little")


def _quarters(packed: np.ndarray) -> np.ndarray:
    """The pairs of bits of each byte, the lowest first: `[..., 1, 32]` -> `[..., 4, 32]`."""
    return np.concatenate([packed >> 2 * part & 3 for part in range(4)], axis=-2)


def _halves(packed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The lower and the upper 4 bits of each byte."""
    return packed & 15, packed >> 4


KEPT = {
    GGMLQuantizationType.Q4_0: KeptBlocks(Q4_0, Q4_0.dtype),
    GGMLQuantizationType.Q4_1: KeptBlocks(Q4_1, Q4_1.dtype),
    GGMLQuantizationType.Q8_0: KeptBlocks(Q8_0, Q8_0.dtype),
    GGMLQuantizationType.Q3_K: KeptBlocks(Q6_G16, _Q3_K, _from_q3_k),
    GGMLQuantizationType.Q4_K: KeptBlocks(Q4_1, _Q4_K, _from_q4_k),
    GGMLQuantizationType.Q5_0: KeptBlocks(Q5_0, _Q5_0, partial(_from_q5, format_=Q5_0)),
    GGMLQuantizationType.Q5_1: KeptBlocks(Q5_1, _Q5_1, partial(_from_q5, format_=Q5_1)),
    GGMLQuantizationType.Q5_K: KeptBlocks(Q5_1, _Q5_K, _from_q5_k),
    GGMLQuantizationType.Q6_K: KeptBlocks(Q6_G16, _Q6_K, _from_q6_k),
    GGMLQuantizationType.IQ4_NL: KeptBlocks(Q8_0, _IQ4_NL, _from_iq4_nl),
}
"""How the types are kept of which a format has the integers; of others it has none."""
