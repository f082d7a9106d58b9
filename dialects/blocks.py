"""The formats of blocks in numpy: how many values share a scale, and where their bits lie.

An array of blocks has a structured element type, so that its shape is that of the tensor of blocks
in MLIR: a weight `[N, K]` is an array `[N, K / G]`, G being how many values of a row make a block.
Little-endian, as ggml defines the formats of GGUF, which are q4_0, q4_1 and q8_0. int4_g64 and
int4_g128 are q4_1 with larger blocks. q5_0 and q5_1 are GGUF's with the fifth bits after the others
and in another order. q6_g16 has the integers of Q6_K, and a scale of its own for every 16.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

import numpy as np

from llmc.dialects.bit_plane import BitPlane, give_all, with_starts

_SLAB = 2**20
"""Bytes of a matrix that are worked on at once."""


@dataclass(frozen=True)
class BlockFormat:
    """Some values `scale * (stored - offset) + minimum`, `stored` being integers of `bits` bits.

    Scale and minimum are float16; a format without minimum has 0 there. Bytes, in order: scale,
    minimum, values, which lie in `planes`. 8-bit values are signed.
    """

    name: str
    bits: int
    offset: int = 0
    has_minimum: bool = False
    values: int = 32

    @property
    def planes(self) -> tuple[BitPlane, ...]:
        """Where the bits of the values lie, in order."""
        return _PLANES[self.bits]

    def plane_starts(self, before: int = 0) -> list[tuple[int, BitPlane]]:
        """Each of the planes, and where its bytes begin, the first after `before` bytes."""
        return with_starts(self.planes, before, self.values)

    @property
    def dtype(self) -> np.dtype:
        """A block, as an element of an array."""
        minimum = [("minimum", "<f2")] if self.has_minimum else []
        packed = ("packed", "u1", self.values * self.bits // 8)
        return np.dtype([("scale", "<f2"), *minimum, packed])

    @property
    def most(self) -> int:
        """The largest integer that is stored without sign."""
        return 2**self.bits - 1

    @property
    def floats(self) -> tuple[str, ...]:
        """The fields that hold float16."""
        return ("scale", "minimum") if self.has_minimum else ("scale",)

    @property
    def bytes(self) -> int:
        """The size of a block."""
        return self.dtype.itemsize

    def bytes_of(self, field: str) -> tuple[int, int]:
        """Where the bytes of `scale`, `minimum` or `packed` begin in a block, and how many."""
        type_, start, *_ = dict(self.dtype.fields or {})[field]
        return start, type_.itemsize

    def integers(self, blocks: np.ndarray) -> np.ndarray:
        """`stored - offset` of every value: blocks `[...]` -> int8 `[..., G]`."""
        integers = self.unpack(blocks["packed"]).view(np.int8)
        return integers - np.int8(self.offset) if self.offset else integers

    def in_order(self, blocks: np.ndarray) -> np.ndarray:
        """The stored integers, pairs of 4 bits in a byte: blocks `[...]` -> int8 `[..., S]`."""
        stored = self.unpack(blocks["packed"])
        if self.bits == 4:
            stored = stored[..., ::2] | stored[..., 1::2] << 4
        return np.ascontiguousarray(stored).view(np.int8)

    @property
    def bytes_in_order(self) -> int:
        """How many bytes `in_order` makes of a block."""
        return self.values // 2 if self.bits == 4 else self.values

    def holds(self, other: "BlockFormat") -> bool:
        """Whether what blocks of `other` stand for is exactly what some of this format do.

        An offset times a scale, a power of two, is a float16 as the minimum is.
        """
        as_wide = other.values == self.values and other.bits <= self.bits
        return as_wide and (self.has_minimum or not other.has_minimum)

    def decode(self, blocks: np.ndarray) -> np.ndarray:
        """The values: blocks `[..., K / G]` -> float32 `[..., K]`."""
        values = blocks["scale"].astype(np.float32)[..., None] * self.integers(blocks)
        if self.has_minimum:
            values = values + blocks["minimum"].astype(np.float32)[..., None]
        return values.reshape(*blocks.shape[:-1], -1)

    def encode(self, x: np.ndarray) -> np.ndarray:
        """The blocks nearest to x, as ggml's reference chooses them: `[..., K]` -> `[..., K / G]`.

        The scale comes from the range of the values, which are rounded to the nearest. `x` holds
        finite numbers.
        """
        return np.concatenate(by_slabs(self._encode, x))

    def _encode(self, x: np.ndarray) -> np.ndarray:
        rows = x.astype(np.float32, copy=False).reshape(*x.shape[:-1], -1, self.values)
        scale, minimum = self._scale_and_minimum(rows)
        blocks = np.zeros(rows.shape[:-1], self.dtype)
        blocks["scale"] = scale[..., 0]
        if minimum is not None:
            blocks["minimum"] = minimum[..., 0]
            rows = rows - minimum
        blocks["packed"] = self._rounded(rows * inverse(scale))
        return blocks

    def pack(self, stored: np.ndarray) -> np.ndarray:
        """The bytes of integers as they are stored: uint8 `[..., G]` -> `[..., bytes]`."""
        return np.concatenate([plane.take(stored) for plane in self.planes], -1)

    def unpack(self, packed: np.ndarray) -> np.ndarray:
        """Integers as they are stored, of their bytes: uint8 `[..., bytes]` -> `[..., G]`."""
        if self.bits == 8:
            return packed
        return give_all(self.plane_starts(), packed, self.values)

    def _scale_and_minimum(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Of each row, both float32 `[..., 1]`."""
        if self.has_minimum:
            minimum, maximum = _at(rows, rows.argmin), _at(rows, rows.argmax)
            return (maximum - minimum) / np.float32(self.most), minimum
        largest = _at(rows, np.abs(rows).argmax)
        if self.bits == 8:
            return np.abs(largest) / np.float32(127), None
        return largest / np.float32(-self.offset), None

    def _rounded(self, ratios: np.ndarray) -> np.ndarray:
        if self.bits == 8:
            return round_half_away(ratios).astype(np.int8).view(np.uint8)
        stored = (ratios + np.float32(self.offset + 0.5)).astype(np.uint8)
        # Of an array: of one number numpy takes ten times as long.
        return self.pack(np.minimum(stored, np.full_like(stored, self.most)))


def _at(rows: np.ndarray, place: Callable[..., np.ndarray]) -> np.ndarray:
    """The number of each row at `place`, as `rows.argmax` gives it: numpy's `max` takes longer."""
    return np.take_along_axis(rows, place(-1, keepdims=True), -1)


def by_slabs(compute: Callable[[np.ndarray], np.ndarray], array: np.ndarray) -> list[np.ndarray]:
    """What `compute` makes of `array [N, ...]`, cut along N so that a part stays in the cache."""
    count = min(-(-array.nbytes // _SLAB), len(array)) if array.ndim > 1 else 1
    return [compute(part) for part in (np.array_split(array, count) if count > 1 else [array])]


def inverse(scale: np.ndarray) -> np.ndarray:
    """`1 / scale`, and 0 where the scale is 0."""
    return np.divide(np.float32(1), scale, out=np.zeros_like(scale), where=scale != 0)


def round_half_away(x: np.ndarray) -> np.ndarray:
    """The nearest integers; of two that are as near, the one farther from 0.

    As LLVM lowers `llvm.round`: with one half itself, the sum could be rounded up.
    """
    almost_half = np.nextafter(x.dtype.type(0.5), x.dtype.type(0))
    return np.trunc(x + np.copysign(almost_half, x))


_PLANES = {
    4: (BitPlane(4, 0),),
    5: (BitPlane(4, 0), BitPlane(1, 4)),
    6: (BitPlane(4, 0), BitPlane(2, 4)),
    8: (BitPlane(8, 0),),
}

Q4_0 = BlockFormat("q4_0", bits=4, offset=8)
Q4_1 = BlockFormat("q4_1", bits=4, has_minimum=True)
Q5_0 = BlockFormat("q5_0", bits=5, offset=16)
Q5_1 = BlockFormat("q5_1", bits=5, has_minimum=True)
Q6_G16 = BlockFormat("q6_g16", bits=6, offset=32, values=16)
Q8_0 = BlockFormat("q8_0", bits=8)
INT4_G64 = BlockFormat("int4_g64", bits=4, has_minimum=True, values=64)
INT4_G128 = BlockFormat("int4_g128", bits=4, has_minimum=True, values=128)

_ALL = (Q4_0, Q4_1, Q5_0, Q5_1, Q6_G16, Q8_0, INT4_G64, INT4_G128)
FORMATS = {format_.name: format_ for format_ in _ALL}


def format_of(array: np.ndarray) -> BlockFormat | None:
    """The format of an array of blocks; None of one that holds numbers."""
    return next((each for each in FORMATS.values() if each.dtype == array.dtype), None)


def fitting(format_: BlockFormat, length: int) -> BlockFormat | None:
    """`format_` for rows of `length` values, or what is like it with the largest blocks that fit.

    None where no number of blocks makes a row.
    """
    alike = [
        each
        for each in FORMATS.values()
        if replace(each, name=format_.name, values=format_.values) == format_
        and each.values <= format_.values
        and length % each.values == 0
    ]
    return max(alike, key=lambda each: each.values, default=None)


def common_format(formats: Collection[BlockFormat]) -> BlockFormat:
    """The smallest format that holds blocks of all these; q8_0 if none does."""
    holding = [each for each in FORMATS.values() if all(map(each.holds, formats))]
    return min(holding, key=lambda each: each.bytes / each.values, default=Q8_0)


def recode(array: np.ndarray, format_: BlockFormat) -> np.ndarray:
    """Numbers `[..., K]` or blocks `[..., K / G]` as blocks of `format_`.

    Exact where `format_` holds blocks of theirs, otherwise the nearest.
    """
    stored = format_of(array)
    if stored == format_:
        return array
    if stored is None or not format_.holds(stored):
        return format_.encode(decode(array))
    blocks = np.zeros(array.shape, format_.dtype)
    blocks["scale"] = array["scale"]
    offset = stored.offset if format_.has_minimum else format_.offset
    blocks["packed"] = format_.pack(stored.integers(array).view(np.uint8) + np.uint8(offset))
    if stored.has_minimum:
        blocks["minimum"] = array["minimum"]
    elif format_.has_minimum:
        blocks["minimum"] = array["scale"] * np.float16(-stored.offset)
    return blocks


def decode(array: np.ndarray) -> np.ndarray:
    """The values of blocks `[..., K / G]` of any format, `[..., K]`; numbers are themselves."""
    format_ = format_of(array)
    return format_.decode(array) if format_ else array
