"""Finds the modules that choose experts as an operation of ours does, by trial.

A module that is a router by its name is run on random numbers, with random weights, beside our
operations. It may have a bias of its own, or be given one.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from llmc.frontend import torch_ops

# Of so few rows no two ways to choose give the same by chance.
_TRIALS = 64

_Route = Callable[..., tuple[Tensor, Tensor]]
"""From logits, a bias where there is one, and a count to weights and experts."""


def routers(model: PreTrainedModel) -> Iterator[tuple[nn.Module, Callable[..., tuple[Any, ...]]]]:
    """The modules of `model` that an operation routes as they do, each with its new `forward`."""
    for module in model.modules():
        if "Router" in type(module).__name__ and (found := _recognise(module)) is not None:
            yield module, _forward(module, *found)


def _recognise(module: nn.Module) -> tuple[_Route, str | None] | None:
    """How a router chooses, and the name of its bias, if it has one; None where nothing agrees."""
    state = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    weight, count = state.pop("weight", None), getattr(module, "top_k", None)
    if weight is None or weight.ndim != 2 or not isinstance(count, int) or len(state) > 1:
        return None
    generator = torch.Generator().manual_seed(0)
    experts, columns = weight.shape
    x, trial = (torch.randn(n, columns, generator=generator) for n in (_TRIALS, experts))
    trial /= columns**0.5  # or one expert would have all the weight
    bias = torch.randn(experts, generator=generator) / experts
    name = next(iter(state), None)
    if name is not None and tuple(state[name].shape) not in ((experts,), (1, experts)):
        return None
    own = {name: bias.view(state[name].shape)} if name is not None else {}
    for given in [()] if own else [(), (bias,)]:
        try:
            theirs = torch.func.functional_call(module, {"weight": trial, **own}, (x, *given))
        except (TypeError, RuntimeError, ValueError):  # another signature
            continue
        biases = [bias] if own or given else []
        for route in _routes(module, len(biases)):
            if _agree(theirs, x @ trial.T, route(x @ trial.T, *biases, count)):
                return route, name
    return None


def _routes(module: nn.Module, biases: int) -> Iterator[_Route]:
    """All ways to choose that a router with so many biases, none or one, may have."""
    flags = (False, True)
    if not biases:
        yield from (partial(torch_ops.route, normalised=normalised) for normalised in flags)
        return
    scales = {1.0, *(float(value) for name, value in vars(module).items() if "scaling" in name)}
    for sigmoid, normalised, scale in product(flags, flags, scales):
        yield partial(torch_ops.biased_route, sigmoid=sigmoid, normalised=normalised, scale=scale)


def _agree(theirs: Any, logits: Tensor, ours: tuple[Tensor, Tensor]) -> bool:
    """Whether a router returned the logits, and the weights and experts, in any order of these."""
    if not isinstance(theirs, Sequence) or len(theirs) != 3:
        return False
    if [each.shape for each in theirs] != [each.shape for each in (logits, *ours)]:
        return False
    same_logits = torch.allclose(theirs[0], logits, atol=1e-5)
    (weights, experts), (our_weights, our_experts) = map(_by_expert, (theirs[1:], ours))
    return (
        same_logits
        and torch.equal(experts, our_experts)
        and torch.allclose(weights, our_weights, atol=1e-5)
    )


def _by_expert(chosen: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    weights, experts = chosen
    order = experts.argsort(-1)
    return weights.gather(-1, order), experts.gather(-1, order)


def _forward(module: Any, route: _Route, bias: str | None) -> Callable[..., tuple[Any, ...]]:
    def forward(hidden: Tensor, *given: Tensor) -> tuple[Tensor, ...]:
        rows = hidden.reshape(-1, hidden.shape[-1])
        logits = torch_ops.linear(rows, module.weight, None, False)
        biases = given if bias is None else (attrgetter(bias)(module),)
        return logits, *route(logits, *(each.reshape(-1) for each in biases), module.top_k)

    return forward
