"""Finds a model's decoder layers, how they are called, and which of them are alike.

Layers of one kind differ in their weights alone. Each kind is exported once, and the model around
the layers sees every layer as one opaque call, so that import does not grow with depth.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import PreTrainedModel

from llmc.frontend import torch_ops
from llmc.frontend.interception import replaced
from llmc.runtime.errors import UserError


@dataclass(frozen=True)
class LayerCall:
    """How the model called one layer: the layout of arguments and result, tensors set apart.

    `operations` are the llmc operations that the layer ran, by name, with their constants.
    """

    leaves: tuple[Any, ...]
    spec: pytree.TreeSpec
    result_leaves: tuple[Any, ...]
    result_spec: pytree.TreeSpec
    operations: tuple[Any, ...]

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of the tensor arguments, in order."""
        return tuple(tuple(leaf.shape) for leaf in self.leaves if isinstance(leaf, Tensor))

    def arguments(self, tensors: list[Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The call's `(args, kwargs)` with `tensors` in the tensors' places."""
        given = iter(tensors)
        leaves = [next(given) if isinstance(leaf, Tensor) else leaf for leaf in self.leaves]
        return pytree.tree_unflatten(leaves, self.spec)

    def result(self, hidden: Tensor) -> Any:
        """What the layer returns, with `hidden` in the place of its only tensor."""
        leaves = [hidden if isinstance(leaf, Tensor) else leaf for leaf in self.result_leaves]
        return pytree.tree_unflatten(leaves, self.result_spec)


@dataclass(frozen=True)
class Layers:
    """A model's decoder layers: where they are, their kinds, and their calls."""

    path: str
    modules: tuple[nn.Module, ...]
    kind_of: tuple[int, ...]
    calls: tuple[LayerCall, ...]

    @property
    def representatives(self) -> list[int]:
        """For each kind, the index of its first layer."""
        return [self.kind_of.index(kind) for kind in range(max(self.kind_of) + 1)]

    def members(self, kind: int) -> list[int]:
        """The indices of the layers of `kind`, in order."""
        return [index for index, its in enumerate(self.kind_of) if its == kind]


def only_tensor(result: Any) -> Tensor:
    """The one tensor in what a layer returned."""
    return next(leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, Tensor))


def find_layers(model: PreTrainedModel) -> tuple[str, nn.ModuleList]:
    """The dotted path and the list of `model`'s decoder layers.

    Raises UserError where the model is not a stack of decoder layers.
    """
    depth = model.config.num_hidden_layers
    for path, module in model.named_modules():
        if isinstance(module, nn.ModuleList) and len(module) == depth:
            return path, module
    raise UserError(f"{type(model).__name__} has no list of {depth} decoder layers to compile")


def study_layers(model: PreTrainedModel, batch: int, tokens: int) -> Layers:
    """Runs `model` on fake data `[batch, tokens]` and sorts its layers into kinds."""
    path, modules = find_layers(model)
    calls = _record_calls(model, list(modules), batch, tokens)
    kinds: dict[Any, int] = {}
    kind_of = tuple(
        kinds.setdefault(_signature(module, call), len(kinds))
        for module, call in zip(modules, calls, strict=True)
    )
    return Layers(path, tuple(modules), kind_of, tuple(calls))


@contextmanager
def opaque_layers(layers: Layers) -> Iterator[None]:
    """While open, each layer is a single `llmc::layer` operation."""
    with ExitStack() as patches:
        for module, call, kind in zip(layers.modules, layers.calls, layers.kind_of, strict=True):
            patches.enter_context(replaced(module, "forward", _opaque_forward(call, kind)))
        yield


def _opaque_forward(call: LayerCall, kind: int) -> Callable[..., Any]:
    def forward(*args: Any, **kwargs: Any) -> Any:
        leaves = pytree.tree_leaves((args, kwargs))
        hidden, *extras = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        return call.result(torch_ops.layer(hidden, extras, kind))

    return forward


class _OperationLog(TorchDispatchMode):
    """Collects the llmc operations that run, with their constants."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[Any] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == torch_ops.NAMESPACE:
            constants = tuple(arg for arg in args if isinstance(arg, int | float))
            self.operations.append((str(func), constants))
        return func(*args, **(kwargs or {}))


def _record_calls(
    model: PreTrainedModel, modules: list[nn.Module], batch: int, tokens: int
) -> list[LayerCall]:
    calls: list[LayerCall] = []

    def recorder(module: nn.Module) -> Any:
        original = module.forward

        def forward(*args: Any, **kwargs: Any) -> Any:
            leaves, spec = pytree.tree_flatten((args, kwargs))
            with _OperationLog() as log:
                result = original(*args, **kwargs)
            result_leaves, result_spec = pytree.tree_flatten(result)
            if sum(isinstance(leaf, Tensor) for leaf in result_leaves) != 1:
                raise UserError(f"{type(module).__name__} must return one tensor to be compiled")
            calls.append(
                LayerCall(
                    tuple(leaves), spec, tuple(result_leaves), result_spec, tuple(log.operations)
                )
            )
            return result

        return forward

    with ExitStack() as patches, FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        for module in modules:
            patches.enter_context(replaced(module, "forward", recorder(module)))
        ids = torch.zeros(batch, tokens, dtype=torch.int64)
        positions = torch.zeros(batch, tokens, dtype=torch.int64)
        model(input_ids=ids, position_ids=positions, use_cache=False, logits_to_keep=1)
    return calls


def _signature(module: nn.Module, call: LayerCall) -> Any:
    """What two layers must share for one function to serve both."""
    constants = tuple(repr(leaf) for leaf in call.leaves if not isinstance(leaf, Tensor))
    structure = tuple(
        (name, type(part).__qualname__, _settings(part)) for name, part in module.named_modules()
    )
    state = tuple(
        (name, tuple(tensor.shape), tensor.dtype) for name, tensor in module.state_dict().items()
    )
    return constants, str(call.spec), call.shapes, structure, state, call.operations


def _settings(module: nn.Module) -> tuple[Any, ...]:
    """A module's plain attributes, but for the one that says which layer it is."""
    plain = (bool, int, float, str, tuple, type(None), torch.dtype)
    return tuple(
        (name, value)
        for name, value in sorted(vars(module).items())
        if isinstance(value, plain) and not name.startswith("_") and name != "layer_idx"
    )
