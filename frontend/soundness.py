"""Checks what llmc takes for granted of a model, since a model that breaks it would run, and lie.

Tokens may influence each other through attention alone, which remembers them in the KV cache; and
where a token stands must reach the model as `position_ids`.
"""

import torch
from torch import Tensor, nn

from llmc.frontend import torch_ops
from llmc.frontend.interception import replaced
from llmc.frontend.layers import LayerCall, Layers, only_tensor
from llmc.runtime.errors import UserError

_COUNTING = (torch.ops.aten.arange, torch.ops.aten.cumsum)


def require_local_layers(layers: Layers) -> None:
    """Tries a layer of each kind on random numbers with attention cut off.

    Raises UserError if a change of one token changes another one's output, as in convolutions over
    tokens, recurrences and attention that does not go through transformers' attention interface.
    """
    for index in layers.representatives:
        module, call = layers.modules[index], layers.calls[index]
        if not _is_local(module, call):
            raise UserError(
                f"{type(module).__name__} mixes tokens outside of transformers' attention "
                "interface: llmc cannot compile it"
            )


def require_positions_from_0(model: nn.Module) -> None:
    """Refuses a model that, given none, counts positions from behind its padding token's number."""
    for module in model.modules():
        if hasattr(module, "create_position_ids_from_input_ids"):
            raise UserError(
                f"{type(module).__name__} does not count positions from 0: llmc cannot compile it"
            )


def require_positions(graph_module: torch.fx.GraphModule) -> None:
    """Refuses a program whose result depends on a count of its tokens: it ignores those before."""
    needed = set(graph_module.graph.output_node().all_input_nodes)
    for node in reversed(graph_module.graph.nodes):
        if node in needed:
            needed.update(node.all_input_nodes)
            if _counts_tokens(node):
                raise UserError("this model computes positions by itself: llmc cannot compile it")


def _counts_tokens(node: torch.fx.Node) -> bool:
    """Whether `node` counts along a dimension whose extent is open."""
    operation = getattr(node.target, "overloadpacket", None)
    if operation not in _COUNTING:
        return False
    along = node.args[1] if operation is torch.ops.aten.cumsum else 0
    return isinstance(node.meta["val"].shape[along], torch.SymInt)


def _is_local(module: nn.Module, call: LayerCall) -> bool:
    generator = torch.Generator().manual_seed(0)

    def random(like: Tensor) -> Tensor:
        if not like.is_floating_point():
            return torch.zeros(like.shape, dtype=like.dtype)
        values = torch.rand(like.shape, generator=generator) * 2 - 1
        return values if like.ndim == 1 else values * (3 / like.shape[-1]) ** 0.5

    state = {name: random(value) for name, value in module.named_parameters()}
    hidden, *rest = [random(leaf) for leaf in call.leaves if isinstance(leaf, Tensor)]
    token = hidden.shape[1] // 2
    changed = hidden.clone()
    changed[:, token] += 1.0
    outputs = []
    with torch.no_grad(), replaced(torch_ops, "attention", _cut_off):
        for first in (hidden, changed):
            args, kwargs = call.arguments([first, *rest])
            out = only_tensor(torch.func.functional_call(module, state, args, kwargs))
            outputs.append(torch.cat([out[:, :token], out[:, token + 1 :]], dim=1))
    before, after = outputs
    tolerance = 1e-5 * float(before.abs().max())
    return torch.allclose(before, after, atol=tolerance, rtol=0, equal_nan=True)


def _cut_off(
    query: Tensor, key: Tensor, value: Tensor, scale: float, window: int, softcap: float
) -> Tensor:
    """In attention's place: each token sees its own value alone."""
    return value.repeat_interleave(query.shape[1] // key.shape[1], dim=1)
