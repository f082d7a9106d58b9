"""The programs of a model: what torch.export is asked for.

A *variant* is one way to run the model: `prefill` (one sequence, many tokens) and `decode_batch`
(many sequences, one token each), of which `add-decode` makes `decode` (one sequence, one token).
Each variant has one trunk (all but the layers) and one program per kind of layer.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from logging import CRITICAL, getLogger

import torch
import transformers
from torch import Tensor, nn
from torch._dynamo.exc import TorchDynamoException
from torch.export import Dim, ExportedProgram
from transformers import PreTrainedModel

from llmc.frontend.interception import llmc_operations
from llmc.frontend.layers import Layers, only_tensor, opaque_layers, study_layers
from llmc.frontend.soundness import (
    require_local_layers,
    require_positions,
    require_positions_from_0,
)
from llmc.runtime import abi
from llmc.runtime.errors import UserError, one_line


@dataclass(frozen=True)
class Variant:
    """One way to run the model. None is a dimension left open, with 2 as its least value."""

    name: str
    batch: int | None
    tokens: int | None


VARIANTS = (
    Variant(abi.PREFILL, batch=1, tokens=None),
    Variant(abi.DECODE_BATCH, batch=None, tokens=1),
)


@dataclass(frozen=True)
class Program:
    """An exported program and the parameters that follow its other arguments.

    `parameters` are names in the model's state for a trunk, in the layer's for a layer. `module` is
    the class whose `forward` was exported.
    """

    name: str
    module: type[nn.Module]
    exported: ExportedProgram
    parameters: tuple[str, ...]


@dataclass(frozen=True)
class VariantPrograms:
    """The exported programs of one variant; `kinds[k]` is the layer function of kind k."""

    variant: Variant
    layers: Layers
    trunk: Program
    kinds: tuple[Program, ...]


def export_variant(model: PreTrainedModel, variant: Variant, context: int) -> VariantPrograms:
    """Exports `variant` of `model` for sequences of up to `context` tokens.

    Raises UserError where the model is not what llmc can compile.
    """
    with _tracing(model), llmc_operations(model), torch.no_grad():
        sizes = _sample_sizes(variant)
        layers = study_layers(model, *sizes)
        if variant.tokens is None:
            require_local_layers(layers)
            require_positions_from_0(model)
        probe = study_layers(model, *(size + 2 * (size > 1) for size in sizes))
        open_dims = _open_dims(variant, sizes, context)
        trunk = _export_trunk(model, layers, variant, open_dims, sizes)
        kinds = tuple(
            _export_layer(layers, probe, kind, variant, open_dims)
            for kind in range(len(layers.representatives))
        )
        if variant.tokens is None:
            for program in (trunk, *kinds):
                require_positions(program.exported.graph_module)
    return VariantPrograms(variant, layers, trunk, kinds)


# What the code of a model that was not written for tracing may raise.
_TRACING_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NotImplementedError,
    RuntimeError,
    TorchDynamoException,
    TypeError,
    ValueError,
)


# Where PyTorch prints a traceback of its own for what it then raises.
_FAKE_TENSORS = getLogger("torch._subclasses.fake_tensor")


@contextmanager
def _tracing(model: PreTrainedModel) -> Iterator[None]:
    level = _FAKE_TENSORS.level
    _FAKE_TENSORS.setLevel(CRITICAL)
    try:
        yield
    except _TRACING_ERRORS as error:
        family = model.config.model_type
        raise UserError(
            f"{family} models are not supported: torch.export cannot trace what transformers"
            f" {transformers.__version__} has for them with llmc's KV cache: {one_line(error)}"
        ) from error
    finally:
        _FAKE_TENSORS.setLevel(level)


def _sample_sizes(variant: Variant) -> tuple[int, int]:
    """Batch and token counts to trace with: distinct, where open, from one another."""
    return variant.batch or 3, variant.tokens or 7


def _open_dims(variant: Variant, sizes: tuple[int, int], context: int) -> dict[int, Dim]:
    """The open dimensions by their sample size, which the bound of each admits."""
    dims = {}
    if variant.batch is None:
        dims[sizes[0]] = Dim("batch", min=2, max=1024)
    if variant.tokens is None:
        dims[sizes[1]] = Dim("tokens", min=2, max=max(context, sizes[1]))
    return dims


class _Functional(nn.Module):
    """A function of tensors and of a module's parameters, as torch.export wants it."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, inputs: list[Tensor], parameters: list[Tensor]) -> Tensor:
        """Calls the function."""
        return self.function(inputs, parameters)


def _export(
    name: str,
    module: nn.Module,
    function: Callable[..., Tensor],
    inputs: list[Tensor],
    input_dims: list[dict[int, Dim]],
    state: dict[str, Tensor],
) -> Program:
    names, tensors = tuple(state), [tensor.detach() for tensor in state.values()]
    exported = torch.export.export(
        _Functional(function),
        (inputs, tensors),
        dynamic_shapes=(input_dims, [None] * len(tensors)),
    )
    return Program(name, type(module), exported, names)


def _export_trunk(
    model: PreTrainedModel,
    layers: Layers,
    variant: Variant,
    open_dims: dict[int, Dim],
    sizes: tuple[int, int],
) -> Program:
    state = {
        name: tensor for name, tensor in _state(model) if not name.startswith(f"{layers.path}.")
    }

    def trunk(inputs: list[Tensor], parameters: list[Tensor]) -> Tensor:
        ids, positions = inputs
        out = torch.func.functional_call(
            model,
            dict(zip(state, parameters, strict=True)),
            kwargs={
                "input_ids": ids,
                "position_ids": positions,
                "use_cache": False,
                "logits_to_keep": 1,
            },
        )
        return out.logits[:, -1, :]

    dims = {axis: open_dims[size] for axis, size in enumerate(sizes) if size in open_dims}
    tokens = torch.zeros(sizes, dtype=torch.int64)
    with opaque_layers(layers):
        return _export(variant.name, model, trunk, [tokens, tokens.clone()], [dims, dims], state)


def _export_layer(
    layers: Layers, probe: Layers, kind: int, variant: Variant, open_dims: dict[int, Dim]
) -> Program:
    index = layers.representatives[kind]
    module, call = layers.modules[index], layers.calls[index]
    state = dict(_state(module))

    def run(inputs: list[Tensor], parameters: list[Tensor]) -> Tensor:
        args, kwargs = call.arguments(inputs)
        given = dict(zip(state, parameters, strict=True))
        return only_tensor(torch.func.functional_call(module, given, args, kwargs))

    inputs, dims = [], []
    tensors = [leaf for leaf in call.leaves if isinstance(leaf, Tensor)]
    for tensor, other in zip(tensors, probe.calls[index].shapes, strict=True):
        inputs.append(torch.zeros(tensor.shape, dtype=tensor.dtype))
        moving = [axis for axis, size in enumerate(other) if size != tensor.shape[axis]]
        dims.append({axis: open_dims[tensor.shape[axis]] for axis in moving})
    return _export(f"{variant.name}.layer{kind}", module, run, inputs, dims, state)


def _state(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from module.named_parameters()
    yield from module.named_buffers()
