"""Finds the modules that choose experts as an operation of ours does, by trial.

A module that is a router by its name is run on random numbers, with random weights, beside our
operations. It may have a bias of its own, or be given one.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
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
"""From logits, a bias or None, and a count to weights and experts."""


def routers(model: PreTrainedModel) -> Iterator[tuple[nn.Module, Callable[..., tuple[Any, ...]]]]:
    """The modules of `model` that an operation routes as they do, each with its new `forward`."""
    for module in model.modules():
        router = _Router.of(module)
        if router is not None and (route := router.find_route()) is not None:
            yield module, router.forward(route)


@dataclass(frozen=True)
class _Router:
    """A module that chooses `top_k` experts by a matrix `weight`, and perhaps a `bias` of its own.

    These are the names of its tensors.
    """

    module: Any
    weight: str
    bias: str | None

    @classmethod
    def of(cls, module: nn.Module) -> "_Router | None":
        """None where it is none by its name, has other tensors, or says no number of experts."""
        if not any(word in type(module).__name__ for word in ("Router", "Gate")):
            return None
        tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        matrices = [name for name, tensor in tensors.items() if _is_matrix(tensor)]
        if len(matrices) != 1 or not isinstance(getattr(module, "top_k", None), int):
            return None
        (weight,) = matrices
        biases = [name for name in tensors if name != weight]
        experts = len(tensors[weight])
        if any(tuple(tensors[name].shape) not in ((experts,), (1, experts)) for name in biases):
            return None
        return cls(module, weight, biases[0] if biases else None) if len(biases) <= 1 else None

    def find_route(self) -> _Route | None:
        """The way to choose that gives what the module gives; None where none does."""
        read = attrgetter(self.weight)(self.module)
        experts, columns = read.shape
        generator = torch.Generator().manual_seed(0)
        x, weight = (torch.randn(n, columns, generator=generator) for n in (_TRIALS, experts))
        weight /= columns**0.5  # or one expert would have all the weight
        bias, logits = torch.randn(experts, generator=generator) / experts, x @ weight.T
        own = {self.weight: weight}
        if self.bias is not None:
            own[self.bias] = bias.view(attrgetter(self.bias)(self.module).shape)
        # Some want rows, some tokens of sequences; some are given a bias.
        for hidden, given in product((x, x[None]), [()] if self.bias else [(), (bias,)]):
            try:
                theirs = torch.func.functional_call(self.module, own, (hidden, *given))
            except (TypeError, RuntimeError, ValueError):  # another signature
                continue
            used = bias if self.bias or given else None
            for route in _routes(self.module, experts, used is not None):
                if _agree(theirs, logits, route(logits, used, self.module.top_k)):
                    return route
        return None

    def forward(self, route: _Route) -> Callable[..., tuple[Any, ...]]:
        """What takes the place of the module's own."""
        module = self.module

        def forward(hidden: Tensor, given: Tensor | None = None) -> tuple[Tensor, ...]:
            rows = hidden.reshape(-1, hidden.shape[-1])
            logits = torch_ops.linear(rows, attrgetter(self.weight)(module), None, False)
            bias = given if self.bias is None else attrgetter(self.bias)(module)
            flat = None if bias is None else bias.reshape(-1)
            return logits, *route(logits, flat, module.top_k)

        return forward


def _is_matrix(tensor: Tensor) -> bool:
    return tensor.ndim == 2 and len(tensor) > 1


def _routes(module: nn.Module, experts: int, biased: bool) -> Iterator[_Route]:
    """All ways to choose that a router, with a bias or not, may have."""
    flags = (False, True)
    if not biased:
        for normalised in flags:
            yield partial(_route_without_bias, normalised=normalised)
    scales = {1.0, *(float(value) for name, value in vars(module).items() if "scal" in name)}
    for sigmoid, normalised, scale, groups in product(
        flags, flags, scales, _groups(module, experts)
    ):
        yield partial(
            torch_ops.scored_route, sigmoid=sigmoid, normalised=normalised, scale=scale, **groups
        )


def _route_without_bias(
    logits: Tensor, _: None, count: int, normalised: bool
) -> tuple[Tensor, Tensor]:
    return torch_ops.route(logits, count, normalised)


def _groups(module: Any, experts: int) -> Iterator[dict[str, int]]:
    """How a router may limit the groups that experts are chosen of: not, or as it says."""
    yield {"groups": 1, "kept_groups": 1, "best": 1}
    groups, kept = _number(module, "num_group", "n_group"), _number(module, "topk_group")
    each, left_over = divmod(experts, max(groups, 1))
    are_equal = groups > 1 and not left_over
    if are_equal and kept in range(1, groups + 1) and module.top_k <= kept * each:
        for best in range(1, min(2, each) + 1):
            yield {"groups": groups, "kept_groups": kept, "best": best}


def _number(module: Any, *names: str) -> int:
    """The first of these attributes that is an integer; 1 where none is."""
    values = (vars(module).get(name) for name in names)
    return next((value for value in values if isinstance(value, int)), 1)


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
