"""Finds the modules of a model that compute a norm, and what computes it as one operation."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from llmc.frontend import torch_ops

Norm: TypeAlias = Callable[[Tensor, Tensor, float], Tensor]
"""Computes a norm of some rows by a weight and an epsilon."""


def _layer_norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    return torch_ops.layer_norm(x, weight, None, epsilon)


def _rms_norm(offset: float, x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    return torch_ops.rms_norm(x, weight, epsilon, offset)


_KINDS: tuple[Norm, ...] = (partial(_rms_norm, 0.0), partial(_rms_norm, 1.0), _layer_norm)


def norms(model: nn.Module) -> Iterator[tuple[nn.Module, Callable[..., Tensor]]]:
    """The modules of `model` that are one of llmc's norms, and a forward that runs it.

    Those of PyTorch's own `LayerNorm` call a function, which can be replaced for all of them.
    """
    for module in model.modules():
        if "Norm" in type(module).__name__ and not isinstance(module, nn.LayerNorm):
            epsilon, norm = _epsilon(module), _norm(module)
            if epsilon is not None and norm is not None:
                yield module, _forward(module, norm, epsilon)


def _only_weight(module: nn.Module) -> Tensor | None:
    """The parameter `weight`; None where the module has another tensor, a bias perhaps, too."""
    state = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    return state["weight"] if list(state) == ["weight"] else None


def _epsilon(module: nn.Module) -> float | None:
    for name in ("variance_epsilon", "eps", "epsilon"):
        if isinstance(value := getattr(module, name, None), float):
            return value
    return None


def _norm(module: nn.Module) -> Norm | None:
    """The norm that `module` computes of random rows; None where it is none of ours."""
    weight, epsilon = _only_weight(module), _epsilon(module)
    if weight is None or weight.ndim != 1 or epsilon is None:
        return None
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, *weight.shape, generator=generator)
    trial = torch.rand(weight.shape, generator=generator)
    try:
        theirs = torch.func.functional_call(module, {"weight": trial}, (x,))
    except (TypeError, RuntimeError):  # another signature: leave it as it is
        return None
    found = (norm for norm in _KINDS if torch.allclose(theirs, norm(x, trial, epsilon), atol=1e-5))
    return next(found, None)


def _forward(module: Any, norm: Norm, epsilon: float) -> Callable[..., Tensor]:
    theirs = module.forward

    def forward(x: Tensor, *more: Any, **named: Any) -> Tensor:
        if more or named:  # a gate: no norm alone
            return theirs(x, *more, **named)
        return norm(x, module.weight, epsilon)

    return forward
