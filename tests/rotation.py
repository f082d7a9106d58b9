"""Rotary position embedding in PyTorch, for heads in any arrangement."""

import torch
from torch import Tensor


def turned(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
    """The first R channels of `x [..., D]` turned by tables `[..., R]`, which x broadcasts.

    The members of a pair follow each other where `interleaved`; else they are R / 2 apart.
    """
    width = cos.shape[-1]
    channels = torch.arange(x.shape[-1])
    if interleaved:
        channels = torch.cat([channels[:width:2], channels[1:width:2], channels[width:]])
    halves = x[..., channels]
    low, high = halves[..., :width].chunk(2, dim=-1)
    first = halves[..., :width] * cos + torch.cat([-high, low], dim=-1) * sin
    return torch.cat([first, halves[..., width:]], dim=-1)[..., channels.argsort()]
