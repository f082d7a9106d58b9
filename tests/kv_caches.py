"""KV caches of each kind, as arrays, as types and as compiled functions take them."""

import numpy as np

from llmc.dialects import BlocksToBytesOp, BytesToBlocksOp
from llmc.dialects.blocks import decode
from llmc.dialects.cache_cells import KEYS, VALUES, CellFormat, blocks_of, cells_of
from llmc.dialects.kv_cache import rows_of

_DTYPES = {"f32": np.float32, "f16": np.float16}


def cells(element: str, which: str) -> CellFormat | None:
    """What a cache of `element` keeps `which`, keys or values, in."""
    return {"keys": KEYS, "values": VALUES}[which] if element == "q8_0" else None


def row_type(channels: int, element: str, which: str) -> str:
    """The last dimension of a cache and what it holds."""
    format_ = cells(element, which)
    return f"{blocks_of(channels)}x!llmc.{format_.name}" if format_ else f"{channels}x{element}"


def kept(numbers: np.ndarray, element: str, which: str) -> np.ndarray:
    """Rows `numbers [..., D]` rounded to what a cache of `element` holds."""
    format_ = cells(element, which)
    return format_.encode(numbers) if format_ else numbers.astype(_DTYPES[element])


def floats_of(rows: np.ndarray, element: str, which: str) -> np.ndarray:
    """The numbers `[..., D]` of rows that `kept` made, and those that fill up cells."""
    format_ = cells(element, which)
    return format_.decode(rows) if format_ else decode(rows)


def as_cache(rows: np.ndarray, element: str, which: str) -> np.ndarray:
    """The cache of `element` that holds `rows [..., capacity, D]`, which `kept` made."""
    format_ = cells(element, which)
    return format_.pack(rows) if format_ else rows


def as_stored(cache: np.ndarray) -> np.ndarray:
    """`cache`, cells as bytes."""
    return BlocksToBytesOp.reference(cache) if cells_of(cache) else cache


def stored_rows(stored: np.ndarray, element: str, which: str) -> np.ndarray:
    """The rows of what `as_stored` made of a cache."""
    format_ = cells(element, which)
    return rows_of(BytesToBlocksOp.reference(stored, format_)) if format_ else stored
