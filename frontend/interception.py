"""Makes a Hugging Face model speak in llmc operations, without code for any family.

transformers offers two doors that every family goes through: the attention interface and the
experts interface. Linear layers, embeddings and layer norms are PyTorch's own. RMS norms, layer
norms of a family's own and rotary embeddings have no door; a module or function that looks like one
by its name is tried on random numbers against our operation and replaced only where the two agree.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedModel, masking_utils
from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS
from transformers.masking_utils import AttentionMaskInterface
from transformers.pytorch_utils import Conv1D

from llmc.frontend import torch_ops
from llmc.frontend.masks import Unreadable, Window, describe_mask
from llmc.frontend.norms import norms
from llmc.frontend.routers import routers
from llmc.runtime.errors import UserError

IMPLEMENTATION = "llmc"


def _attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Window | Unreadable | Tensor | None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """The attention interface of transformers: [B, H, T, D] in, [B, T, H, D] out."""
    unknown = [
        name
        for name, given in others.items()
        if isinstance(given, Tensor) and name not in ("position_ids", "cache_position")
    ]
    window = sliding_window or 0
    if isinstance(attention_mask, Window):
        window = attention_mask.size
    elif attention_mask is not None:
        unknown.append("a mask that is no causal window")
    if softcap is not None and not softcap > 0:
        unknown.append(f"a softcap of {softcap:g}")
    if unknown:
        what = ", ".join(unknown)
        raise UserError(f"{type(module).__name__} attends with {what}: llmc cannot compile it")
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    out = torch_ops.attention(query, key, value, scale, window, softcap or 0.0)
    return out.transpose(1, 2).contiguous(), None


def _experts(module: Any, hidden: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
    """The experts interface of transformers: `hidden [T, H]`, `chosen` and `weights` `[T, K]`."""
    expert = chosen.reshape(-1)
    first = "gate_up_proj" if module.has_gate else "up_proj"

    def project(x: Tensor, name: str, top_k: int) -> Tensor:
        weight = getattr(module, name)
        y = torch_ops.expert_linear(x, expert, weight, top_k, module.is_transposed)
        return y + getattr(module, f"{name}_bias")[expert] if module.has_bias else y

    inner = project(hidden, first, chosen.shape[-1])
    inner = module._apply_gate(inner) if module.has_gate else module.act_fn(inner)
    outer = project(inner, "down_proj", 1)
    if module.has_post_expert_norm:
        outer = module.post_expert_norm(outer)
    return torch_ops.combine_experts(outer, weights).to(hidden.dtype)


AttentionInterface.register(IMPLEMENTATION, _attend)
AttentionMaskInterface.register(IMPLEMENTATION, describe_mask)
ALL_EXPERTS_FUNCTIONS.register(IMPLEMENTATION, _experts)


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """While open, attribute `name` of `owner` is `value`."""
    absent = object()
    before = vars(owner).get(name, absent)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if before is absent:
            delattr(owner, name)
        else:
            setattr(owner, name, before)


@contextmanager
def llmc_operations(model: PreTrainedModel) -> Iterator[None]:
    """While open, `model` runs on `torch.ops.llmc` wherever it can."""
    with ExitStack() as patches:
        # Positions that do not rise by one mean padding here, never several texts in one row.
        patches.enter_context(
            replaced(masking_utils, "find_packed_sequence_indices", lambda *_args: None)
        )
        patches.enter_context(replaced(nn.Linear, "forward", _linear))
        patches.enter_context(replaced(nn.Embedding, "forward", _embed))
        patches.enter_context(replaced(nn.functional, "layer_norm", _layer_norm))
        patches.enter_context(replaced(Conv1D, "forward", _conv1d))
        for module, forward in (*norms(model), *routers(model)):
            patches.enter_context(replaced(module, "forward", forward))
        namespace = sys.modules[type(model).__module__]
        if rotation := _rotation(getattr(namespace, "apply_rotary_pos_emb", None)):
            patches.enter_context(replaced(namespace, "apply_rotary_pos_emb", rotation))
        yield


def _linear(module: nn.Linear, x: Tensor) -> Tensor:
    return torch_ops.linear(x, module.weight, module.bias, False)


def _embed(module: nn.Embedding, ids: Tensor) -> Tensor:
    return torch_ops.embedding(ids, module.weight)


def _layer_norm(
    x: Tensor,
    normalized_shape: list[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """`torch.nn.functional.layer_norm`, which is left to PyTorch over several dimensions."""
    if len(normalized_shape) > 1:
        return torch.layer_norm(x, normalized_shape, weight, bias, eps)
    return torch_ops.layer_norm(x, weight, bias, eps)


def _conv1d(module: Conv1D, x: Tensor) -> Tensor:
    return torch_ops.linear(x, module.weight, module.bias, True)


def _rotate_halves(query: Tensor, key: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """Pairs of channels that are half of all apart, by tables `[B, T, R]` of both halves."""
    return torch_ops.rotary(query, cos, sin, False), torch_ops.rotary(key, cos, sin, False)


def _rotate_neighbours(
    query: Tensor, key: Tensor, cos: Tensor, sin: Tensor
) -> tuple[Tensor, Tensor]:
    """Pairs of channels side by side, by tables `[B, T, R]` whose halves are the same."""
    return torch_ops.rotary(query, cos, sin, True), torch_ops.rotary(key, cos, sin, True)


def _rotate_neighbours_by_channel(
    query: Tensor, key: Tensor, cos: Tensor, sin: Tensor
) -> tuple[Tensor, Tensor]:
    """Pairs of channels side by side, by tables `[B, T, R]` channel by channel."""
    cos, sin = (torch.cat((table[..., ::2], table[..., 1::2]), -1) for table in (cos, sin))
    return _rotate_neighbours(query, key, cos, sin)


def _rotation(function: Callable | None) -> Callable | None:
    """A family's `apply_rotary_pos_emb(q, k, cos, sin)` by the `rotary` operation, if it is one."""
    if function is None:
        return None
    generator = torch.Generator().manual_seed(0)
    query, key = (torch.randn(2, heads, 5, 8, generator=generator) for heads in (4, 2))
    tables = [torch.randn(2, 5, 8, generator=generator) for _ in range(2)]
    doubled = [table[..., :4].repeat(1, 1, 2) for table in tables]
    for ours, (cos, sin) in (
        (_rotate_halves, tables),
        (_rotate_neighbours, doubled),
        (_rotate_neighbours_by_channel, tables),
    ):
        try:
            theirs = function(query, key, cos, sin)
        except (TypeError, RuntimeError, ValueError):  # another signature: leave it as it is
            return None
        if all(map(torch.allclose, theirs, ours(query, key, cos, sin))):
            return ours
    return None
