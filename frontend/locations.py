"""Where the nodes of a graph come from: lines of the model's own source.

torch.export notes for a node the calls that led to it. PyTorch's own functions and ours are among
them, which explain nothing to the reader of a model; inputs, weights and sizes have no calls.
"""

import inspect
import re
from pathlib import Path

import torch
from torch import nn

_FRAME_BEGINS = re.compile(r'^(?= *File ")', re.MULTILINE)
_FILE = re.compile(r' *File "([^"]+)"')
_NOT_THE_MODELS = tuple(f"{Path(file).parent}/" for file in (torch.__file__, __file__))


def trace_to_model(graph: torch.fx.Graph, module: type[nn.Module]) -> None:
    """Leaves in the nodes' stack traces what is the model's own.

    Where that is nothing, it is the line where `module`, whose graph it is, defines `forward`.
    """
    forward = _definition(module)
    for node in graph.nodes:
        frames = _FRAME_BEGINS.split(node.meta.get("stack_trace") or "")
        node.meta["stack_trace"] = "".join(filter(_is_the_models, frames)) or forward


def _is_the_models(frame: str) -> bool:
    file = _FILE.match(frame)
    if file is None or not Path(file[1]).is_absolute():  # PyTorch names some of its own so
        return False
    return not file[1].startswith(_NOT_THE_MODELS)


def _definition(module: type[nn.Module]) -> str | None:
    """The line `def forward` of a class, as a frame; None where its source is not at hand."""
    function = inspect.unwrap(module.forward)
    try:
        lines, first = inspect.getsourcelines(function)
        file = inspect.getsourcefile(function)
    except (OSError, TypeError):
        return None
    below = next((at for at, line in enumerate(lines) if line.lstrip().startswith("def ")), 0)
    return f'File "{file}", line {first + below}, in forward\n{lines[below]}'
