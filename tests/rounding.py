"""PyTorch with what a compiled model rounds: activations to 8 bits, the KV cache to float16."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn

from llmc.dialects.blocks import BlockFormat, fitting
from llmc.dialects.quantize_rows import QuantizeRowsOp
from llmc.frontend import torch_ops
from llmc.frontend.interception import replaced

_ATTENTION = torch_ops.attention


@contextmanager
def rounded_activations(format_: BlockFormat, but: Sequence[nn.Linear] = ()) -> Iterator[None]:
    """While open, linear layers multiply what `llmc.quantize_rows` makes of their operand.

    It is rounded for blocks of `format_`, or of those like it that fill its rows; not for `but`.
    """

    def on_integers(module: nn.Linear, x: Tensor) -> Tensor:
        if module in but:
            return nn.functional.linear(x, module.weight, module.bias)
        group = fitting(format_, x.shape[-1]).values
        values, scales = QuantizeRowsOp.reference(x.numpy(), group)
        rounded = torch.from_numpy(values * np.repeat(scales, group, axis=-1))
        return nn.functional.linear(rounded, module.weight, module.bias)

    with replaced(nn.Linear, "forward", on_integers):
        yield


@contextmanager
def narrow_cache() -> Iterator[None]:
    """While open, models with our attention attend to keys and values rounded to float16."""
    with replaced(torch_ops, "attention", _on_halves):
        yield


def _on_halves(query: Tensor, key: Tensor, value: Tensor, *options: float) -> Tensor:
    return _ATTENTION(query, key.half().float(), value.half().float(), *options)
