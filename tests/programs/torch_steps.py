"""What models write in PyTorch around the operations that arrive whole: a step for each idiom."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from llmc.frontend import torch_ops

WIDTH = 8
HEADS = 2

Parameter = Callable[..., Tensor]
"""Gives the next weight, of a shape."""

TorchStep = Callable[[Tensor, Parameter], Tensor]
"""`x [1, T, WIDTH]`, and the weights, to another of that shape."""


def _heads(x: Tensor) -> Tensor:
    """`[1, T, WIDTH]` -> `[1, HEADS, T, WIDTH / HEADS]`."""
    return x.view(*x.shape[:-1], HEADS, -1).transpose(1, 2)


def _rows(x: Tensor) -> Tensor:
    """The inverse of `_heads`."""
    return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], -1)


def _norm(x: Tensor, parameter: Parameter) -> Tensor:
    return torch_ops.rms_norm(x, parameter(WIDTH), 1e-5, 1.0)


def _written_out_norm(x: Tensor, parameter: Parameter) -> Tensor:
    return parameter(WIDTH) * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5))


def _layer_norm(x: Tensor, parameter: Parameter) -> Tensor:
    return torch_ops.layer_norm(x, parameter(WIDTH), parameter(WIDTH), 1e-5)


def _written_out_layer_norm(x: Tensor, parameter: Parameter) -> Tensor:
    return functional.layer_norm(x, (WIDTH,), parameter(WIDTH), parameter(WIDTH))


def _linear(x: Tensor, parameter: Parameter) -> Tensor:
    return torch_ops.linear(x, parameter(WIDTH, WIDTH), parameter(WIDTH), True)


def _gated(x: Tensor, parameter: Parameter) -> Tensor:
    gate, up = torch_ops.linear(x, parameter(2 * WIDTH, WIDTH), None, False).chunk(2, dim=-1)
    return x + functional.silu(gate) * up


def _attention(x: Tensor, parameter: Parameter) -> Tensor:
    query = _heads(torch_ops.linear(x, parameter(WIDTH, WIDTH), None, False))
    key, value = (_heads(x)[:, :1] for _ in range(2))
    return x + _rows(torch_ops.attention(query, key, value, 0.5, 2, 0.0))


def _rotary(x: Tensor, parameter: Parameter) -> Tensor:
    place = torch.arange(x.shape[1])[None].float()
    angles = torch.cat([place[..., None] * parameter(2)] * 2, dim=-1)
    cos, sin = angles.cos() * 0.5, angles.sin()
    heads = torch_ops.rotary(_heads(x), cos, sin, False)
    return _rows(torch_ops.rotary(heads, cos, sin, True))


def _rotate_half(x: Tensor, parameter: Parameter) -> Tensor:
    half = WIDTH // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1) * 0.5 + x


def _interleave(x: Tensor, parameter: Parameter) -> Tensor:
    return torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)


def _scores(x: Tensor, parameter: Parameter) -> Tensor:
    hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
    scores = (_heads(x) @ _heads(x).transpose(-1, -2)).masked_fill(hidden, float("-inf"))
    return _rows(torch.softmax(scores, dim=-1) @ _heads(x))


def _softcap(x: Tensor, parameter: Parameter) -> Tensor:
    return 3.0 * torch.tanh(x / 3.0)


def _gelu(x: Tensor, parameter: Parameter) -> Tensor:
    return functional.gelu(x, approximate="tanh") + functional.gelu(x)


def _clipped(x: Tensor, parameter: Parameter) -> Tensor:
    return torch.where(x > 0.1, x.clamp(min=-0.5, max=0.5), x - 1.0).relu() + x.abs().sqrt()


def _from_the_mean(x: Tensor, parameter: Parameter) -> Tensor:
    return x - x.mean(dim=1, keepdim=True) / (1 + x.amax(dim=-1, keepdim=True).exp())


def _last_token(x: Tensor, parameter: Parameter) -> Tensor:
    return x + x[:, -1:, :]


def _embedded(x: Tensor, parameter: Parameter) -> Tensor:
    ids = x.abs().sum(-1).long() % 3
    return x + torch_ops.embedding(ids, parameter(3, WIDTH))


def _positions(x: Tensor, parameter: Parameter) -> Tensor:
    place = torch.arange(x.shape[1]).unsqueeze(0).expand(x.shape[0], -1)
    return x + functional.embedding(place.clamp(max=3), parameter(4, WIDTH))


def _experts(x: Tensor, parameter: Parameter) -> Tensor:
    rows = x.reshape(-1, WIDTH)
    chosen = torch.topk(
        torch.softmax(torch_ops.linear(rows, parameter(3, WIDTH), None, False), -1), 2
    )
    weight = chosen.values / chosen.values.sum(-1, keepdim=True)
    expert = chosen.indices.reshape(-1)
    y = torch_ops.expert_linear(rows, expert, parameter(3, WIDTH, WIDTH), 2, False)
    return (y.view(-1, 2, WIDTH) * weight[..., None]).sum(1).view(x.shape)


def _expert_groups(x: Tensor, parameter: Parameter) -> Tensor:
    scores = torch_ops.linear(x.reshape(-1, WIDTH), parameter(6, WIDTH), None, False).sigmoid()
    groups = scores.view(-1, 3, 2)
    best = torch.topk(groups.topk(2).values.sum(-1), 2, sorted=False).indices
    kept = torch.zeros_like(groups[..., 0]).scatter(1, best, 1.0)
    scores = scores.masked_fill(~(kept.bool().unsqueeze(-1).expand_as(groups).reshape(-1, 6)), 0.0)
    return x + scores.topk(2, dim=-1, largest=False).values.sum(-1).view(*x.shape[:2], 1)


STEPS: dict[str, TorchStep] = {
    step.__name__.lstrip("_"): step
    for step in (
        _attention,
        _clipped,
        _embedded,
        _expert_groups,
        _experts,
        _from_the_mean,
        _gated,
        _gelu,
        _interleave,
        _last_token,
        _layer_norm,
        _linear,
        _norm,
        _positions,
        _rotary,
        _rotate_half,
        _scores,
        _softcap,
        _written_out_layer_norm,
        _written_out_norm,
    )
}
