"""Operations of PyTorch that torch-mlir lowers to none, or wrongly, in terms of others.

The pass `refuse-unsupported` says which are left.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch._decomp import get_decompositions
from torch.export import exported_program
from torch_mlir.extras.fx_decomp_util import get_decomposition_table

from llmc.frontend import torch_ops
from llmc.frontend.interception import replaced


def decompositions() -> dict[Any, Callable[..., Any]]:
    """By operation of PyTorch, what to trace in its place."""
    # torch-mlir's own lowering of the tanh form of GELU takes sqrt(2/pi) to be 0.797724.
    gelu = get_decompositions([torch.ops.aten.gelu])
    return {**get_decomposition_table(), **gelu, **_OWN}


@contextmanager
def decomposed_alike() -> Iterator[None]:
    """While open, all programs are decomposed by the same table, which is looked at but once.

    For each program torch.export 2.13 looks for PyTorch's composite operations, overrides all 500
    of them, and takes it back: half of the time that `run_decompositions` takes for a small one.
    """
    override = exported_program._override_composite_implicit_decomp
    split = _once(exported_program._split_decomp_table_to_cia_and_python_decomp)
    with ExitStack() as overridden:
        begin = _once(lambda operations: overridden.enter_context(override(operations)))

        def override_once(operations: dict[Any, Any]) -> AbstractContextManager[None]:
            begin(operations)
            return nullcontext()

        with (
            replaced(exported_program, "_override_composite_implicit_decomp", override_once),
            replaced(exported_program, "_split_decomp_table_to_cia_and_python_decomp", split),
        ):
            yield


def _once(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Gives what `function` gives of what it is first called with, whatever it is called with."""
    results: list[Any] = []

    def call(argument: Any) -> Any:
        if not results:
            results.append(function(argument))
        return results[0]

    return call


def _top_k(
    x: Tensor, count: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Tensor, Tensor]:
    """`torch.topk` of floats; what need not be sorted is."""
    if not x.is_floating_point():
        return NotImplemented
    last = x.movedim(dim, -1)
    rows = last.reshape(-1, last.shape[-1])
    found = torch_ops.top_k(rows if largest else -rows, count)
    values, places = (each.view(*last.shape[:-1], count).movedim(-1, dim) for each in found)
    return values if largest else -values, places


def _scatter_value(x: Tensor, dim: int, places: Tensor, value: float) -> Tensor:
    """`torch.scatter` of one number, along the last dimension, to places in every row."""
    if dim % x.ndim != x.ndim - 1 or places.shape[:-1] != x.shape[:-1]:
        return NotImplemented
    columns = torch.arange(x.shape[-1], device=x.device)
    hit = (places.unsqueeze(-2) == columns.unsqueeze(-1)).any(-1)
    return torch.where(hit, torch.full_like(x, value), x)


def _product(x: Tensor, y: Tensor | float) -> Tensor:
    """`torch.mul` of complex numbers by a real one."""
    if isinstance(y, Tensor) or not x.is_complex():
        return NotImplemented
    return torch.view_as_complex(torch.view_as_real(x) * y)


_OWN = {
    torch.ops.aten.mul.Tensor: _product,
    torch.ops.aten.topk.default: _top_k,
    torch.ops.aten.scatter.value: _scatter_value,
}
