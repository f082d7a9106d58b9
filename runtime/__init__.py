"""Runs bundles: `load(folder).generate("Hello")`. Needs neither PyTorch nor the compiler."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llmc.runtime.errors import RankError, UserError
    from llmc.runtime.generation import Generation, GenerationOptions
    from llmc.runtime.model import Chat, Model, load
    from llmc.runtime.sampling import SamplingOptions

__all__ = [
    "Chat",
    "Generation",
    "GenerationOptions",
    "Model",
    "RankError",
    "SamplingOptions",
    "UserError",
    "load",
]

_HOMES = {
    "Chat": "model",
    "Generation": "generation",
    "GenerationOptions": "generation",
    "Model": "model",
    "RankError": "errors",
    "SamplingOptions": "sampling",
    "UserError": "errors",
    "load": "model",
}


def __getattr__(name: str) -> Any:
    """Imports what is asked for and no more: the compiler's errors need no inference engine."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
