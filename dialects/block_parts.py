"""Blocks of q8_0 in two parts: the upper 6 bits of their integers, and the other 2.

The part `high`, which begins with the scale, takes 26 of the 34 bytes of a block. A product by it
alone is rough, and how far it may be from the whole one is known beforehand (`rough_products`).

A part is made of planes, see `BitPlane`. The integers are stored as bytes without sign, `OFFSET`
more than they are.
"""

from dataclasses import dataclass
from functools import partial, reduce
from operator import or_

import numpy as np

from llmc.dialects.bit_plane import BitPlane, give_all, with_starts
from llmc.dialects.block_panels import pack_bytes, unpack_bytes
from llmc.dialects.blocks import Q8_0, by_slabs

OFFSET = 128
"""What is added to an integer, so that it is stored without sign."""

MIDDLE = 2
"""What the two low bits are taken for where they are not read; they are 0 to 3."""


@dataclass(frozen=True)
class Planes:
    """A part of blocks: `before` bytes of numbers, and then `planes`."""

    before: int
    planes: tuple[BitPlane, ...]

    @property
    def starts(self) -> list[tuple[int, BitPlane]]:
        """Each plane, and how many bytes of a block come before it."""
        return with_starts(self.planes, self.before, Q8_0.values)

    @property
    def bytes(self) -> int:
        """What the part takes of a block."""
        return self.before + sum(plane.bytes_of(Q8_0.values) for plane in self.planes)

    @property
    def mask(self) -> int:
        """The bits of an integer that are in any of its planes."""
        return reduce(or_, (plane.mask for plane in self.planes))


HIGH = Planes(2, (BitPlane(4, 4), BitPlane(2, 2)))
LOW = Planes(0, (BitPlane(2, 0),))
PLANES = {"high": HIGH, "low": LOW}


def pack_planes(blocks: np.ndarray, part: Planes, columns: int) -> np.ndarray:
    """A part of q8_0 blocks `[N, K / 32]` in panels of `columns` rows: int8 `[N / J, K / 32, S]`.

    J is `columns`, and panels are as in `block_panels`. ValueError where `blocks` is no such
    matrix, or `columns` is not above 0.
    """
    _check(blocks)
    if columns < 1:
        raise ValueError(f"{columns} rows make no panel")
    stored = np.concatenate(by_slabs(partial(_bytes, part=part), blocks))
    return pack_bytes(stored, part.before, columns)


def unpack_planes(high: np.ndarray, low: np.ndarray | None, outputs: int) -> np.ndarray:
    """The blocks `[N, K / 32]`, N being `outputs`; without `low` their low bits are `MIDDLE`."""
    rows = unpack_bytes(high, HIGH.bytes, HIGH.before, outputs)
    blocks = np.zeros(rows.shape[:-1], Q8_0.dtype)
    blocks["scale"] = np.ascontiguousarray(rows[..., : HIGH.before]).view("<f2")[..., 0]
    stored = give_all(HIGH.starts, rows, Q8_0.values)
    if low is None:
        stored |= np.uint8(MIDDLE)
    else:
        rows = unpack_bytes(low, LOW.bytes, LOW.before, outputs)
        stored |= give_all(LOW.starts, rows, Q8_0.values)
    blocks["packed"] = stored - np.uint8(OFFSET)
    return blocks


def left_out(blocks: np.ndarray) -> np.ndarray:
    """What the high bits leave out of the numbers of blocks `[N, K / 32]`, float32 `[N, K]`.

    ValueError where `blocks` is no matrix of q8_0.
    """
    _check(blocks)
    bits = (_stored(blocks) & np.uint8(LOW.mask)) - np.float32(MIDDLE)
    return (bits * blocks["scale"].astype(np.float32)[..., None]).reshape(len(blocks), -1)


def _check(blocks: np.ndarray) -> None:
    if blocks.dtype != Q8_0.dtype or blocks.ndim != 2:
        raise ValueError(f"{blocks.dtype} {blocks.shape} is no matrix of q8_0 blocks")


def _stored(blocks: np.ndarray) -> np.ndarray:
    """The integers as they are stored: blocks `[...]` -> uint8 `[..., 32]`."""
    return Q8_0.integers(blocks).view(np.uint8) + np.uint8(OFFSET)


def _bytes(blocks: np.ndarray, part: Planes) -> np.ndarray:
    """The bytes of a part: blocks `[...]` -> uint8 `[..., bytes]`."""
    scales = np.ascontiguousarray(blocks["scale"])[..., None].view(np.uint8)
    stored = _stored(blocks)
    words = [plane.take(stored) for plane in part.planes]
    return np.concatenate([scales[..., : part.before], *words], -1)
