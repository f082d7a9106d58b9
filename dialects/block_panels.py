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

WORD = 4
"""Bytes of a row's integers that lie together: those that a lane of an instruction multiplies."""


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
    return pack_bytes(_bytes_of(blocks), header(format_), columns)


def unpack_blocks(panels: np.ndarray, format_: BlockFormat, outputs: int) -> np.ndarray:
    """The blocks `[..., N, K / G]` in panels `[..., N / J, K / G, S]`, N being `outputs`."""
    rows = unpack_bytes(panels, format_.bytes, header(format_), outputs)
    return np.ascontiguousarray(rows).view(format_.dtype)[..., 0]


def pack_bytes(stored: np.ndarray, before: int, columns: int) -> np.ndarray:
    """Bytes of blocks, uint8 `[..., N, B, bytes]`, as panels: int8 `[..., N / J, B, S]`.

    The first `before` bytes of a block are 2-byte numbers, the others words of `WORD`.
    """
    *leading, rows, count, size = stored.shape
    panels = -(-rows // columns)
    padded = stored
    if rows % columns:
        padded = np.zeros((*leading, panels * columns, count, size), np.uint8)
        padded[..., :rows, :, :] = stored
    padded = padded.reshape(*leading, panels, columns, count, size)
    # As integers of 2 and 4 bytes, of which numpy moves one as fast as a byte.
    numbers = [
        np.moveaxis(np.ascontiguousarray(field).view(f"u{width}"), -3, -1)
        for field, width in zip(np.split(padded, [before], -1), (2, WORD), strict=True)
    ]
    cells = [np.ascontiguousarray(field).view(np.int8) for field in numbers]
    return np.concatenate([cell.reshape(*leading, panels, count, -1) for cell in cells], -1)


def unpack_bytes(panels: np.ndarray, size: int, before: int, outputs: int) -> np.ndarray:
    """The bytes uint8 `[..., N, B, size]` in panels int8 `[..., N / J, B, S]`; N is `outputs`."""
    *leading, blocks, cell = panels.shape
    columns = cell // size
    fields = [
        field.reshape(*leading, blocks, -1, columns, width).swapaxes(-3, -2)
        for field, width in zip(np.split(panels, [before * columns], -1), (2, WORD), strict=True)
    ]
    rows = np.concatenate([field.reshape(*leading, blocks, columns, -1) for field in fields], -1)
    rows = rows.swapaxes(-3, -2).reshape(*leading[:-1], -1, blocks, size)
    return rows.view(np.uint8)[..., :outputs, :, :]


def _bytes_of(blocks: np.ndarray) -> np.ndarray:
    """The bytes of each block, uint8 `[..., bytes]`."""
    return np.ascontiguousarray(blocks).view(np.uint8).reshape(*blocks.shape, -1)
