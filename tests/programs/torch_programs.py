"""Programs in PyTorch, imported as `llmc compile` imports a model: a trunk and its layers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
import torch
from torch import Tensor, nn
from torch.export import Dim
from torch_mlir import ir

from llmc.frontend import torch_ops
from llmc.frontend.importer import import_programs
from llmc.frontend.layers import Layers
from llmc.frontend.programs import Program, Variant, VariantPrograms
from llmc.runtime import abi
from tests.programs.scope import Weights
from tests.programs.torch_steps import STEPS, WIDTH, Parameter, TorchStep

_PATH = "layers"
_TOKENS = Dim("tokens", min=2, max=64)


@dataclass(frozen=True)
class TorchPlan:
    """The names of a trunk's steps, and of those of the layer that it calls `calls` times."""

    steps: tuple[str, ...]
    layer: tuple[str, ...]
    calls: int

    def trunk(self, layer: Callable[[Tensor, int], Tensor]) -> TorchStep:
        """The steps, then the calls; `layer` is told the number of each."""

        def body(x: Tensor, parameter: Parameter) -> Tensor:
            x = _body(self.steps)(x, parameter)
            for number in range(self.calls):
                x = layer(x, number)
            return x

        return body


@dataclass(frozen=True)
class TorchProgram:
    """A program as the importer leaves it, and what PyTorch computes of `x`."""

    module: ir.Module
    weights: Weights
    x: np.ndarray
    y: np.ndarray

    @classmethod
    def of(cls, plan: TorchPlan) -> "TorchProgram":
        """Runs `plan` in float64, and exports and imports it, into a context of its own."""
        weights: Weights = {}
        x = torch.from_numpy(np.random.default_rng(0).uniform(-1, 1, (1, 4, WIDTH)))

        def layer(hidden: Tensor, number: int) -> Tensor:
            return _body(plan.layer)(hidden, _new_weights(weights, f"{_PATH}.{number}."))

        y = plan.trunk(layer)(x, _new_weights(weights, ""))
        return cls(_imported(plan, weights), weights, x.numpy(), y.numpy())


def _body(steps: Sequence[str]) -> TorchStep:
    def body(x: Tensor, parameter: Parameter) -> Tensor:
        for step in steps:
            x = STEPS[step](x, parameter)
        return x

    return body


def _new_weights(weights: Weights, prefix: str) -> Parameter:
    """Puts each weight that is asked for into `weights`."""
    numbers = count()

    def parameter(*shape: int) -> Tensor:
        name = f"{prefix}weight{next(numbers)}"
        weights[name] = np.random.default_rng(list(name.encode())).uniform(-1, 1, shape)
        return torch.from_numpy(weights[name])

    return parameter


def _imported(plan: TorchPlan, weights: Weights) -> ir.Module:
    prefix = f"{_PATH}.0."
    of_trunk = {name: value for name, value in weights.items() if not name.startswith(_PATH)}
    of_layer = {
        name.removeprefix(prefix): value
        for name, value in weights.items()
        if name.startswith(prefix)
    }
    trunk = plan.trunk(lambda hidden, _: torch_ops.layer(hidden, [], 0))
    layer = _exported(f"{abi.PREFILL}.layer0", _body(plan.layer), of_layer)
    variant = VariantPrograms(
        Variant(abi.PREFILL, batch=1, tokens=None),
        Layers(_PATH, (), (0,) * plan.calls, ()),
        _exported(abi.PREFILL, trunk, of_trunk),
        (layer,),
    )
    return import_programs([variant], ir.Context())


class _Exported(nn.Module):
    """A body, whose weights are arguments."""

    def __init__(self, body: TorchStep) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor, parameters: list[Tensor]) -> Tensor:
        given = iter(parameters)
        return self.body(x, lambda *shape: next(given))


def _exported(name: str, body: TorchStep, weights: Weights) -> Program:
    tensors = [torch.from_numpy(value).float() for value in weights.values()]
    arguments = torch.zeros(1, 7, WIDTH), tensors
    shapes = {1: _TOKENS}, [None] * len(tensors)
    exported = torch.export.export(_Exported(body), arguments, dynamic_shapes=shapes)
    return Program(name, _Exported, exported, tuple(weights))
