"""The compiled modules of a bundle: one for all ranks that run the same code."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from torch_mlir import ir

from llmc.pipelines.iree import compile_module
from llmc.pipelines.passes.bind_parameters import RECIPE
from llmc.pipelines.rewriting.functions import globals_with
from llmc.pipelines.targets.target import Target
from llmc.runtime.manifest import MODULE


@dataclass(frozen=True)
class Code:
    """A compiled module: its file, and the kernels that a call of each function dispatches."""

    file: str
    dispatches: dict[str, int]


@dataclass
class Codes:
    """Compiles modules into `folder`."""

    folder: Path
    _compiled: dict[tuple[str, str], Code] = field(default_factory=dict)

    def compile(self, module: ir.Module, target: Target, slug: str) -> Code:
        """The code of `module` for `target`, compiled unless it is there.

        `slug` is what tells the file's name from those of other targets and ranks.
        Raises IREEError, OSError.
        """
        with _without_recipes(module):
            key = repr(target), module.operation.get_asm(assume_verified=True)
        if key not in self._compiled:
            file = free_name(self.folder, MODULE, slug)
            dispatches = compile_module(module, target, self.folder / file)
            self._compiled[key] = Code(file, dispatches)
        return self._compiled[key]


def free_name(folder: Path, name: str, slug: str) -> str:
    """`params.irpa` where `folder` has none yet, else `params.vulkan.irpa`, with that slug.

    What is of one rank is named so in any case.
    """
    stem, _, suffix = name.rpartition(".")
    is_free = not (folder / name).exists() and "rank" not in slug
    return name if is_free else f"{stem}.{slug}.{suffix}"


@contextmanager
def _without_recipes(module: ir.Module) -> Iterator[None]:
    """Hides how weights are computed, which code does not depend on."""
    recipes = [(op, op.attributes[RECIPE]) for op in globals_with(module, RECIPE)]
    for op, _ in recipes:
        del op.attributes[RECIPE]
    yield
    for op, recipe in recipes:
        op.attributes[RECIPE] = recipe
