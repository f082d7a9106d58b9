"""Runs bundles: `load(folder).generate("Hello")`. Needs neither PyTorch nor the compiler."""

from llmc.runtime.errors import UserError
from llmc.runtime.generation import Generation, GenerationOptions
from llmc.runtime.model import Chat, Model, load
from llmc.runtime.sampling import SamplingOptions

__all__ = [
    "Chat",
    "Generation",
    "GenerationOptions",
    "Model",
    "SamplingOptions",
    "UserError",
    "load",
]
