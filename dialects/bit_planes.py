"""Bit planes: blocks of 8-bit integers in two parts, one of their high bits and one of the low.

Who wants products but roughly reads the high bits alone, 26 bytes of 34. A plane of b bits keeps
some bits of each integer, 128 more than it is, in b words of four bytes. Byte i of word w has, from
its lowest bits on, those of the integers 4 w + i, 4 (w + b) + i, 4 (w + 2 b) + i, ... so that one
shift and one mask give a word of them. The high bits begin with the block's scale.
"""

from dataclasses import dataclass

import numpy as np

from llmc.dialects.block_panels import PART, pack_bytes, unpack_bytes
from llmc.dialects.blocks import Q8_0, slabs

OFFSET = 128
"""What is added to each integer where it is stored."""

MIDDLE = 2
"""What the low bits are taken for where they are not read."""

WORDS = Q8_0.values // PART
"""Words of four integers in a block."""

LEAST = 2**-10
"""The least root mean square of a column that counts, as a share of the mean one."""

SLACK = 1 + 2**-10
"""By more than what rounding does to a length in float32."""


@dataclass(frozen=True)
class BitPlane:
    """`bits` bits of each integer, from bit number `place` on."""

    bits: int
    place: int

    @property
    def bytes(self) -> int:
        """What the plane takes of a block."""
        return PART * self.bits

    @property
    def mask(self) -> int:
        """Its bits of an integer."""
        return (2**self.bits - 1) << self.place


@dataclass(frozen=True)
class Planes:
    """A part of blocks: `before` bytes of numbers, and then `planes`."""

    before: int
    planes: tuple[BitPlane, ...]

    @property
    def starts(self) -> list[tuple[int, BitPlane]]:
        """Each plane, and how many bytes of a block come before it."""
        starts = [self.before]
        for plane in self.planes:
            starts.append(starts[-1] + plane.bytes)
        return list(zip(starts, self.planes, strict=False))

    @property
    def bytes(self) -> int:
        """What the part takes of a block."""
        return self.before + sum(plane.bytes for plane in self.planes)


HIGH = Planes(2, (BitPlane(4, 4), BitPlane(2, 2)))
LOW = Planes(0, (BitPlane(2, 0),))
PLANES = {"high": HIGH, "low": LOW}


def pack_planes(blocks: np.ndarray, part: Planes, columns: int) -> np.ndarray:
    """A part of q8_0 blocks `[N, K / 32]` in panels of `columns` rows: int8 `[N / J, K / 32, S]`.

    As `block_panels` says. ValueError where `blocks` is no such matrix.
    """
    if blocks.dtype != Q8_0.dtype or blocks.ndim != 2 or columns < 1:
        raise ValueError(f"{blocks.dtype} {blocks.shape} is no matrix of q8_0 blocks")
    stored = Q8_0.integers(blocks).view(np.uint8) + np.uint8(OFFSET)
    scales = np.ascontiguousarray(blocks["scale"])[..., None].view(np.uint8)
    words = [_words(stored, plane) for plane in part.planes]
    return pack_bytes(
        np.concatenate([scales[..., : part.before], *words], -1), part.before, columns
    )


def unpack_planes(high: np.ndarray, low: np.ndarray | None, outputs: int) -> np.ndarray:
    """The blocks `[N, K / 32]`, N being `outputs`; without `low` its bits are `MIDDLE`."""
    rows = unpack_bytes(high, HIGH.bytes, HIGH.before, outputs)
    blocks = np.zeros(rows.shape[:-1], Q8_0.dtype)
    blocks["scale"] = np.ascontiguousarray(rows[..., : HIGH.before]).view("<f2")[..., 0]
    stored = _integers(rows, HIGH)
    if low is None:
        stored |= np.uint8(MIDDLE)
    else:
        stored |= _integers(unpack_bytes(low, LOW.bytes, LOW.before, outputs), LOW)
    blocks["packed"] = stored - np.uint8(OFFSET)
    return blocks


def metric(blocks: np.ndarray) -> np.ndarray:
    """By what lengths are measured that multiply the rows of a matrix: of columns, float32 `[K]`.

    Any would do; this counts columns of large numbers less, for they meet large ones more often:
    the root of what 1 over the root mean square of a column is, but for columns of next to nothing.
    """
    sums = sum(np.square(Q8_0.decode(part)).sum(0, np.float64) for part in slabs(blocks))
    mean = np.sqrt(sums / len(blocks))
    least = mean.mean() * LEAST
    return (1 / np.sqrt(np.maximum(mean, least or 1))).astype(np.float32)


def spread(blocks: np.ndarray, metric: np.ndarray) -> np.ndarray:
    """How far products by the high bits alone may be from whole ones: of rows, float32 `[N]`.

    It is a share of the length, by the `metric [K]`, of what a row is multiplied by: the length of
    what is left out over the metric, by the inequality of Cauchy and Schwarz, and what rounding
    makes of both sums of K / 32 numbers in float32.
    """
    return np.concatenate([_spread(part, metric) for part in slabs(blocks)])


def _spread(blocks: np.ndarray, metric: np.ndarray) -> np.ndarray:
    scales = blocks["scale"].astype(np.float64)[..., None]
    factors = scales / metric.astype(np.float64).reshape(-1, Q8_0.values)
    integers = Q8_0.integers(blocks)
    left_out = ((integers.view(np.uint8) + np.uint8(OFFSET)) & (2 * MIDDLE - 1)) - float(MIDDLE)
    whole, part = (
        np.sqrt(np.square(each * factors).sum((-2, -1))) for each in (integers, left_out)
    )
    return (SLACK * (part + rounding(blocks.shape[-1]) * (whole + part))).astype(np.float32)


def rounding(blocks: int) -> float:
    """What rounding makes of two sums over so many blocks in float32, as a share of their terms."""
    return (blocks + 4) * 2.0**-23


def _bytes(blocks: np.ndarray, part: Planes) -> np.ndarray:
    """What a part has of blocks, `[..., bytes]`."""
    stored = Q8_0.integers(blocks).view(np.uint8) + np.uint8(OFFSET)
    scales = np.ascontiguousarray(blocks["scale"])[..., None].view(np.uint8)
    words = [_words(stored, plane) for plane in part.planes]
    return np.concatenate([scales[..., : part.before], *words], -1)


def _words(stored: np.ndarray, plane: BitPlane) -> np.ndarray:
    """Integers `[..., 32]` -> the bytes of the plane, `[..., 4 bits]`."""
    parts = (stored & np.uint8(plane.mask)) >> np.uint8(plane.place)
    parts = parts.reshape(*stored.shape[:-1], WORDS // plane.bits, plane.bytes)
    return np.bitwise_or.reduce(parts << _shifts(plane), axis=-2)


def _integers(rows: np.ndarray, part: Planes) -> np.ndarray:
    """Bytes of blocks, `[..., bytes]` -> what they have of the integers, `[..., 32]`."""
    integers = np.zeros((*rows.shape[:-1], Q8_0.values), np.uint8)
    for start, plane in part.starts:
        words = rows[..., None, start : start + plane.bytes] >> _shifts(plane)
        bits = (words << np.uint8(plane.place)) & np.uint8(plane.mask)
        integers |= bits.reshape(integers.shape)
    return integers


def _shifts(plane: BitPlane) -> np.ndarray:
    """Where in a byte the bits of each integer begin: `[8 / bits, 1]`."""
    return plane.bits * np.arange(WORDS // plane.bits, dtype=np.uint8)[:, None]
