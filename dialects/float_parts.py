"""Floats in two parts: each number is an integer of half its bits in `high`, and one in `low`.

A product by `high` alone is rough, and how far it may be from the whole one is known beforehand
(`rough_products`).

Of float32 `high` has the upper half. Of float16 it has the sign and the seven bits that follow the
highest one of the exponent: this is 0 in numbers below 2, which weights are, and lies in `low`.
"""

from dataclasses import dataclass

import numpy as np

_MANTISSA = np.finfo(np.float32).nmant


@dataclass(frozen=True)
class FloatParts:
    """How numbers of type `dtype` are taken apart.

    Of the bits in `high` the first is the sign, and the others are those from number `shift` on.
    Of those in `low` the first is number `top`, and the others are the lowest ones of the number.
    """

    dtype: np.dtype
    shift: int
    top: int

    @property
    def width(self) -> int:
        """The bits of a part."""
        return 4 * self.dtype.itemsize

    @property
    def integer(self) -> np.dtype:
        """What holds a part."""
        return np.dtype(f"<i{self.width // 8}")

    @property
    def whole(self) -> np.dtype:
        """What holds the bits of a number."""
        return np.dtype(f"<i{self.width // 4}")

    @property
    def rest(self) -> int:
        """The bits of a part but the first."""
        return 2 ** (self.width - 1) - 1

    @property
    def low(self) -> int:
        """The bits of a number that are in `low`."""
        return self.rest | 1 << self.top

    @property
    def place(self) -> int:
        """Where in a float32 the bits of `high` begin."""
        return self.shift + _MANTISSA - int(np.finfo(self.dtype).nmant)

    @property
    def kept(self) -> int:
        """The bits of a float32 that are in `high`."""
        return 1 << 31 | self.rest << self.place

    @property
    def unread(self) -> int:
        """The others of a float32.

        Those of float32 are 0: so 0 stays what it is, where a CPU would take long to multiply the
        least of numbers. Those of float16 are taken for their middle, but `top` for 0; the exponent
        of a float32, which counts from another number, is far from the least.
        """
        bias = int(np.finfo(np.float32).maxexp) - int(np.finfo(self.dtype).maxexp)
        return bias << _MANTISSA | 1 << (self.place - 1) if bias else 0


F16 = FloatParts(np.dtype(np.float16), shift=7, top=14)
F32 = FloatParts(np.dtype(np.float32), shift=16, top=15)
FLOATS = (F16, F32)
PARTS = ("high", "low")


def parts_of(dtype: np.dtype) -> FloatParts:
    """How floats of `dtype`, or integers that hold a part of such, are taken apart.

    ValueError where they are not.
    """
    for parts in FLOATS:
        if dtype in (parts.dtype, parts.integer):
            return parts
    raise ValueError(f"{dtype} is not taken apart: float16 and float32 are, into int8 and int16")


def split(x: np.ndarray, part: str) -> np.ndarray:
    """The `part`, high or low, of each number: float16 `[...]` -> int8, float32 -> int16.

    ValueError where `x` holds other numbers.
    """
    if x.dtype.kind != "f":
        raise ValueError(f"{x.dtype} is no type of floats")
    parts = parts_of(x.dtype)
    bits = x.view(parts.whole)
    first, moved = (
        (bits >> parts.width, bits >> parts.shift)
        if part == "high"
        else (bits >> (parts.top - parts.width + 1), bits)
    )
    mask = parts.whole.type(parts.rest)
    return (first & ~mask | moved & mask).astype(parts.integer)


def join(high: np.ndarray, low: np.ndarray | None) -> np.ndarray:
    """The numbers that are taken apart into `high` and `low`, or are near `high`, in float32."""
    parts = parts_of(high.dtype)
    if low is None:
        bits = high.astype(np.int32) << parts.place
        return (bits & _signed(parts.kept, 32) | _signed(parts.unread, 32)).view(np.float32)
    mask = parts.whole.type(_signed(parts.low, 2 * parts.width))
    bits = high.astype(parts.whole) << parts.whole.type(parts.shift)
    return (bits & ~mask | low.astype(parts.whole) & mask).view(parts.dtype).astype(np.float32)


def left_out(x: np.ndarray) -> np.ndarray:
    """What the high bits leave out of floats `[...]`, float32 `[...]`.

    ValueError where `x` holds other numbers.
    """
    return x.astype(np.float32) - join(split(x, "high"), None)


def _signed(bits: int, width: int) -> np.int32:
    """These `width` bits as an integer with sign."""
    return np.int32(bits - (bits >> (width - 1) << width))
