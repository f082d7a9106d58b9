"""How far products by the high bits of a matrix may be from whole ones.

It is a matrix of q8_0 blocks `[N, K / 32]` (`block_parts`), or of floats `[N, K]` (`float_parts`).
"""

from functools import partial

import numpy as np

from llmc.dialects import block_parts, float_parts
from llmc.dialects.blocks import Q8_0, by_slabs, decode, format_of

LEAST = 2**-10
"""A column's root mean square counts as no less than this share of the mean of all."""

SLACK = 1 + 2**-10
"""A factor for lengths in float32, which rounding makes less wrong than this."""

LEAST_SQUARE = 2.0**-100
"""What is added to the square of a length, more than float32 loses of numbers near 0."""


def metric(matrix: np.ndarray) -> np.ndarray:
    """A factor for each column of a matrix, float32 `[K]`, by which `spread` measures lengths.

    Any factors above 0 would do. Where a column's weights are large, so are often the activations
    that they are multiplied by; that such columns count less makes the bound a tighter one. The
    factor of a column is 1 over the square root of its root mean square. ValueError where `matrix`
    has no high bits.
    """
    _check(matrix)
    with np.errstate(all="ignore"):
        sums = sum(by_slabs(_squares, matrix))
        mean = np.sqrt(sums / len(matrix))
        least = mean.mean() * LEAST
        return (1 / np.sqrt(np.maximum(mean, least or 1))).astype(np.float32)


def spread(matrix: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """How far products by the high bits may be from whole ones: for each row, float32 `[N]`.

    It is to be multiplied by the length of what the row is multiplied by, each number times its
    own of `factors [K]`. The difference is a product, too, by what the high bits leave out of the
    row, and so no larger than the product of both lengths (Cauchy and Schwarz), if numbers of the
    row are divided by the factors. What rounding makes of both sums in float32 is counted in. Of a
    row with numbers that are not finite it is infinite, or NaN. ValueError where `matrix` has no
    high bits, or `factors` is none for its columns.
    """
    _check(matrix)
    columns = matrix.shape[1] * (Q8_0.values if format_of(matrix) else 1)
    if factors.shape != (columns,):
        raise ValueError(f"{factors.shape} is no metric of a matrix of {columns} columns")
    return np.concatenate(by_slabs(partial(_spread, factors=factors), matrix))


def rounding(count: int) -> float:
    """The most that rounding makes of two sums of so many terms, as a share of the lengths."""
    return (count + 4) * 2.0**-23


def _check(matrix: np.ndarray) -> None:
    """ValueError where `matrix` is none of q8_0 blocks, float16 or float32."""
    kinds = (Q8_0.dtype, *(parts.dtype for parts in float_parts.FLOATS))
    if matrix.ndim != 2 or matrix.dtype not in kinds:
        raise ValueError(f"{matrix.dtype} {matrix.shape} is no matrix of q8_0, float16 or float32")


@np.errstate(all="ignore")
def _squares(matrix: np.ndarray) -> np.ndarray:
    """The sum of each column's squares, float64 `[K]`."""
    return np.square(decode(matrix), dtype=np.float64).sum(0)


@np.errstate(all="ignore")
def _spread(matrix: np.ndarray, factors: np.ndarray) -> np.ndarray:
    left_out = block_parts.left_out if format_of(matrix) else float_parts.left_out
    whole, part = (
        np.sqrt(np.square(numbers / factors.astype(np.float64)).sum(1))
        for numbers in (decode(matrix), left_out(matrix))
    )
    # A block makes one term, of exact integers.
    rounded = rounding(matrix.shape[1]) * (whole + part)
    return (SLACK * (part + rounded)).astype(np.float32)
