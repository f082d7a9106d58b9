"""Some bits of integers, in bytes of their own: where they lie.

A plane has the same b bits of all integers of a block, in words of four bytes. Byte i of word w
has, from its lowest bits on, those of the integers 4 w + i, 4 (w + n) + i, 4 (w + 2 n) + i, ..., n
being the number of words, so that one shift and one mask give the bits of four neighbours, word by
word.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate
from math import gcd
from operator import or_

import numpy as np


@dataclass(frozen=True)
class BitPlane:
    """`bits` bits of each integer, from bit number `place` on."""

    bits: int
    place: int

    @property
    def sharers(self) -> int:
        """How many integers have their bits in one byte."""
        return 8 // self.bits

    @property
    def mask(self) -> int:
        """Its bits of an integer."""
        return (2**self.bits - 1) << self.place

    def bytes_of(self, values: int) -> int:
        """How many bytes have its bits of so many integers."""
        return values // self.sharers

    def take(self, stored: np.ndarray) -> np.ndarray:
        """The bytes of the plane: integers uint8 `[..., G]` -> uint8 `[..., bytes]`."""
        size = self.bytes_of(stored.shape[-1])
        bits = np.ascontiguousarray((stored & np.uint8(self.mask)) >> np.uint8(self.place))
        # As wide integers, a column of all rows at once: numpy takes longer for rows, being short.
        columns = bits.reshape(-1, stored.shape[-1]).view(f"u{gcd(size, 8)}").T
        shared = columns.reshape(self.sharers, -1, columns.shape[-1])
        taken = shared[0].copy()
        for sharer in range(1, self.sharers):
            taken |= shared[sharer] << taken.dtype.type(sharer * self.bits)
        return np.ascontiguousarray(taken.T).view(np.uint8).reshape(*stored.shape[:-1], size)

    def give(self, packed: np.ndarray) -> np.ndarray:
        """The bits, at their place in integers: uint8 `[..., bytes]` -> uint8 `[..., G]`."""
        bits = (packed[..., None, :] >> self._shifts) << np.uint8(self.place)
        return (bits & np.uint8(self.mask)).reshape(*packed.shape[:-1], -1)

    @property
    def _shifts(self) -> np.ndarray:
        """Where in a byte the bits of each integer begin: `[sharers, 1]`."""
        return self.bits * np.arange(self.sharers, dtype=np.uint8)[:, None]


def with_starts(planes: Sequence[BitPlane], before: int, values: int) -> list[tuple[int, BitPlane]]:
    """Each plane of `values` integers, and how many bytes come before it: first `before`."""
    sizes = [plane.bytes_of(values) for plane in planes]
    return list(zip(accumulate(sizes, initial=before), planes, strict=False))


def give_all(starts: Sequence[tuple[int, BitPlane]], rows: np.ndarray, values: int) -> np.ndarray:
    """The bits of `values` integers that lie in planes of `rows [..., bytes]`: uint8 `[..., G]`."""
    bits = [plane.give(rows[..., at : at + plane.bytes_of(values)]) for at, plane in starts]
    return reduce(or_, bits)
