"""PyTorch with what a compiled model rounds: activations to 8 bits, and the KV cache."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn

from llmc.dialects.blocks import Q8_0, BlockFormat, fitting
from llmc.dialects.cache_cells import KEYS, VALUES, are_smaller, room_of
from llmc.dialects.quantize_rows import QuantizeRowsOp
from llmc.dialects.walsh_hadamard import walsh_hadamard
from llmc.frontend import torch_ops
from llmc.frontend.interception import replaced

_ATTENTION, _EXPERT_LINEAR = torch_ops.attention, torch_ops.expert_linear


@contextmanager
def rounded_activations(format_: BlockFormat, but: Sequence[nn.Linear] = ()) -> Iterator[None]:
    """While open, linear layers multiply what `llmc.quantize_rows` makes of their operand.

    It is rounded for blocks of `format_`, or of those like it that fill its rows; not for `but`.
    Experts are to be ours.
    """

    def rounded(x: Tensor) -> Tensor:
        group = fitting(format_, x.shape[-1]).values
        values, scales = QuantizeRowsOp.reference(x.numpy(), group)
        return torch.from_numpy(values * np.repeat(scales, group, axis=-1))

    def linear(module: nn.Linear, x: Tensor) -> Tensor:
        x = x if module in but else rounded(x)
        return nn.functional.linear(x, module.weight, module.bias)

    def expert_linear(x: Tensor, *others: Tensor | int) -> Tensor:
        return _EXPERT_LINEAR(rounded(x), *others)

    with (
        replaced(nn.Linear, "forward", linear),
        replaced(torch_ops, "expert_linear", expert_linear),
    ):
        yield


@contextmanager
def narrow_activations(tokens: int, but: Sequence[nn.Linear] = ()) -> Iterator[None]:
    """While open, linear layers multiply the first `tokens` of a sequence as bf16; not `but`.

    That is what `narrow-activations` makes of a prompt.
    """

    def linear(module: nn.Linear, x: Tensor) -> Tensor:
        if module not in but and module.in_features % 32 == 0:
            prompt, rest = x.split([tokens, x.shape[1] - tokens], dim=1)
            x = torch.cat([prompt.bfloat16().to(x.dtype), rest], dim=1)
        return nn.functional.linear(x, module.weight, module.bias)

    with replaced(nn.Linear, "forward", linear):
        yield


@contextmanager
def narrow_cache() -> Iterator[None]:
    """While open, models with our attention attend to keys and values rounded to float16."""
    with replaced(torch_ops, "attention", _on_halves):
        yield


@contextmanager
def rounded_cache() -> Iterator[None]:
    """While open, models with our attention attend to keys and values in blocks.

    Queries are rounded too. In float16 where blocks of heads are no smaller.
    """

    def attention(query: Tensor, key: Tensor, value: Tensor, *options: float) -> Tensor:
        if not are_smaller(key.shape[-1], value.shape[-1]):
            return _on_halves(query, key, value, *options)
        held = (
            torch.from_numpy(format_.decode(format_.encode(rows.numpy())))
            for format_, rows in ((KEYS, key), (VALUES, value))
        )
        rows = _ATTENTION(rounded_query(query), *held, *options)
        return rows[..., : value.shape[-1]]

    with replaced(torch_ops, "attention", attention):
        yield


def rounded_query(query: Tensor) -> Tensor:
    """Queries as they meet keys in blocks: in steps of a 127th of the largest of each 32.

    They are transformed as keys are when they are rounded, and as these filled up to whole blocks.
    """
    channels = query.shape[-1]
    whole = nn.functional.pad(query, (0, room_of(channels) - channels))
    blocks = transformed(whole).unflatten(-1, (-1, Q8_0.values))
    step = blocks.abs().amax(-1, keepdim=True) / 127
    return transformed((blocks / step).round().mul(step).flatten(-2))


def transformed(rows: Tensor) -> Tensor:
    """Rows as they are kept in cells of keys, or those again."""
    return torch.from_numpy(walsh_hadamard(rows.numpy()))


def _on_halves(query: Tensor, key: Tensor, value: Tensor, *options: float) -> Tensor:
    return _ATTENTION(query, key.half().float(), value.half().float(), *options)
