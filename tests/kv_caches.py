"""KV caches of each kind, as arrays, as types and as compiled functions take them."""

import numpy as np

from llmc.dialects import BlocksToBytesOp
from llmc.dialects.blocks import Q8_0, format_of

_DTYPES = {"f32": np.float32, "f16": np.float16}


def row_type(channels: int, element: str) -> str:
    """The last dimension of a cache and what it holds."""
    return f"{channels // Q8_0.values}x!llmc.q8_0" if element == "q8_0" else f"{channels}x{element}"


def kept(numbers: np.ndarray, element: str) -> np.ndarray:
    """`numbers [..., D]` rounded to what a cache of `element` holds."""
    return Q8_0.encode(numbers) if element == "q8_0" else numbers.astype(_DTYPES[element])


def as_stored(cache: np.ndarray) -> np.ndarray:
    """`cache`, blocks as bytes."""
    return cache if format_of(cache) is None else BlocksToBytesOp.reference(cache)


def as_held(stored: np.ndarray, element: str) -> np.ndarray:
    """What `as_stored` is given."""
    return stored.view(Q8_0.dtype)[..., 0] if element == "q8_0" else stored
