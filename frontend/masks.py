"""Reads the attention masks of transformers models instead of building them.

transformers describes a mask as a function of row and column and lets an attention implementation
turn it into a tensor. Ours turns it into a `Window`, a number that passes through the model in the
mask's place.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

MaskFunction = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]

# Rows that are tried: far beyond any window, so that no window at all can be told from a wide one.
_LAST_ROW = 1 << 22


@dataclass(frozen=True)
class Window:
    """A row sees itself and the `size - 1` tokens before it; 0: all of them."""

    size: int


class Unreadable:
    """Stands for a mask that is not a causal window, such as one of chunks or of images."""


def describe_mask(*, mask_function: MaskFunction, **_others: Any) -> Window | Unreadable:
    """A mask factory as transformers' AttentionMaskInterface wants it.

    Some models make masks that no layer uses, so that an unreadable one is an error only in use.
    """
    with _disable_current_modes():  # torch.export may be tracing: these are numbers, not the model
        window = Window(_window_size(mask_function))
        return window if _agrees(mask_function, window) else Unreadable()


def _window_size(mask_function: MaskFunction) -> int:
    """The reach of the last row, by bisection on its first visible column."""
    if _sees(mask_function, _LAST_ROW, 0):
        return 0
    hidden, seen = 0, _LAST_ROW
    while seen - hidden > 1:
        middle = (hidden + seen) // 2
        if _sees(mask_function, _LAST_ROW, middle):
            seen = middle
        else:
            hidden = middle
    return _LAST_ROW - hidden


def _sees(mask_function: MaskFunction, row: int, column: int) -> bool:
    zero = torch.tensor(0)
    return bool(mask_function(zero, zero, torch.tensor(row), torch.tensor(column)))


def _agrees(mask_function: MaskFunction, window: Window) -> bool:
    """Whether the function is the window on a square of small rows and around the window's edge."""
    edge = window.size
    for first in {0, max(edge - 8, 0), 3 * edge}:
        rows = torch.arange(first, first + 24)[:, None]
        for start in {max(first - edge - 8, 0), max(first - 8, 0)}:
            columns = torch.arange(start, start + 40)[None, :]
            zero = torch.zeros((), dtype=torch.int64)
            theirs = mask_function(zero, zero, rows, columns)
            ours = columns <= rows
            if edge:
                ours = ours & (columns > rows - edge)
            if not torch.equal(theirs.expand_as(ours), ours):
                return False
    return True
