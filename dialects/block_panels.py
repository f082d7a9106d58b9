"""Panels: rows of blocks interleaved so that a kernel reads what it multiplies together at once.

A panel is J rows of a weight `[N, K / G]`. Its cell for block b, J blocks in S = J * (bytes of a
block) bytes, holds the fields of a block one after another, each as parts of all J rows:

    J scales, J minima (where the format has them), 2 bytes each;
    the first 4 bytes of the integers of row 0, of row 1, ... row J - 1; the next 4 bytes; ...

These are GGUF's bytes in another order, and as many: rows past the last one are zeros. The 4-byte
parts of all rows fill registers that are multiplied by 4 activations, repeated.
"""

import numpy as np

from llmc.dialects.blocks import BlockFormat, format_of

PART = 4
"""How many bytes of a row's integers lie together."""


def header(format_: BlockFormat) -> int:
    """How many bytes of a block come before its integers."""
    start, _ = format_.bytes_of("packed")
    return start


def pack_blocks(blocks: np.ndarray, columns: int) -> np.ndarray:
    """Blocks `[..., N, K / G]` as panels of `columns` rows: int8 `[..., N / J, K / G, S]`.

    ValueError where `blocks` is none.
    """
    format_ = format_of(blocks)
    if format_ is None or blocks.ndim < 2 or columns < 1:
        raise ValueError(f"{blocks.dtype} {blocks.shape} is no matrix of blocks")
    *leading, rows, count = blocks.shape
    panels = -(-rows // columns)
    stored = np.zeros((*leading, panels * columns, count, format_.bytes), np.uint8)
    stored[..., :rows, :, :] = _bytes_of(blocks)
    stored = stored.reshape(*leading, panels, columns, count, format_.bytes).swapaxes(-3, -2)
    cells = [
        field.reshape(*leading, panels, count, columns, -1, width)
        .swapaxes(-3, -2)
        .reshape(*leading, panels, count, -1)
        for field, width in zip(np.split(stored, [header(format_)], -1), (2, PART), strict=True)
    ]
    return np.concatenate(cells, -1).view(np.int8)


def unpack_blocks(panels: np.ndarray, format_: BlockFormat, outputs: int) -> np.ndarray:
    """The blocks `[..., N, K / G]` in panels `[..., N / J, K / G, S]`, N being `outputs`."""
    *leading, blocks, size = panels.shape
    columns = size // format_.bytes
    split = header(format_) * columns
    fields = [
        field.reshape(*leading, blocks, -1, columns, width).swapaxes(-3, -2)
        for field, width in zip(np.split(panels, [split], -1), (2, PART), strict=True)
    ]
    rows = np.concatenate([field.reshape(*leading, blocks, columns, -1) for field in fields], -1)
    rows = np.ascontiguousarray(rows.swapaxes(-3, -2)).view(format_.dtype)[..., 0]
    return rows.reshape(*leading[:-1], -1, blocks)[..., :outputs, :]


def _bytes_of(blocks: np.ndarray) -> np.ndarray:
    """The bytes of each block, uint8 `[..., bytes]`."""
    return np.ascontiguousarray(blocks).view(np.uint8).reshape(*blocks.shape, -1)
