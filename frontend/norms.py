"""Finds the modules of a model that compute a norm, and what computes it as one operation."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from llmc.frontend import torch_ops

Norm: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""Computes a norm of some rows by a weight."""


def norms(model: nn.Module) -> Iterator[tuple[nn.Module, Callable[..., Tensor]]]:
    """The modules of `model` that are one of llmc's norms, and a forward that runs it.

    Those of PyTorch's own `LayerNorm` call a function, which can be replaced for all of them.
    """
    for module in model.modules():
        is_named_so = "Norm" in type(module).__name__ and not isinstance(module, nn.LayerNorm)
        if is_named_so and (norm := _norm(module)):
            yield module, _forward(module, norm)


def _kinds(epsilon: float) -> Iterator[Norm]:
    """The norms that llmc has an operation for."""
    for offset in (0.0, 1.0):
        yield partial(_rms_norm, epsilon, offset)
    yield partial(_layer_norm, epsilon)


def _rms_norm(epsilon: float, offset: float, x: Tensor, weight: Tensor) -> Tensor:
    return torch_ops.rms_norm(x, weight, epsilon, offset)


def _layer_norm(epsilon: float, x: Tensor, weight: Tensor) -> Tensor:
    return torch_ops.layer_norm(x, weight, None, epsilon)


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
    kinds = _kinds(epsilon)
    return next((norm for norm in kinds if torch.allclose(theirs, norm(x, trial), atol=1e-5)), None)


def _forward(module: Any, norm: Norm) -> Callable[..., Tensor]:
    theirs = module.forward

    def forward(x: Tensor, *more: Any, **named: Any) -> Tensor:
        if more or named:  # a gate: no norm alone
            return theirs(x, *more, **named)
        return norm(x, module.weight)

    return forward
