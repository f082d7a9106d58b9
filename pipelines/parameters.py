"""Writes the archive of weights that a module names."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import BinaryIO, TypeAlias

import iree.runtime as rt
import numpy as np
import torch
from torch import Tensor
from torch_mlir import ir

from llmc.dialects import BlocksToBytesOp
from llmc.dialects.blocks import decode, format_of
from llmc.pipelines.passes.bind_parameters import RECIPE
from llmc.pipelines.recipes.extract_slice import ExtractSlice
from llmc.pipelines.recipes.recipe import KnownResults, Recipe, WeightReader, read_recipe
from llmc.pipelines.recipes.shared_results import SharedResults
from llmc.pipelines.recipes.step import RecipeError
from llmc.pipelines.rewriting.functions import globals_with
from llmc.runtime.errors import IREE_ERRORS, UserError

_TYPES = {
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i8": torch.int8,
    "i16": torch.int16,
    "i64": torch.int64,
}

_LARGE_PAGES = 4 * 1024 * 1024
"""Bytes that are written at once: two of an x86 CPU's large pages."""

_THREADS = 4
"""Layers that are computed at once: numpy and PyTorch let go of Python's lock."""

StoredWeight: TypeAlias = Tensor | np.ndarray
"""A weight of the model: numbers, or an array of blocks (`dialects.blocks`)."""


@dataclass(frozen=True)
class StoredParameter:
    """One entry of the archive: how it is computed, in which shape and element type."""

    name: str
    recipe: Recipe
    shape: tuple[int, ...]
    element: str

    @property
    def bytes(self) -> int:
        """How many the entry takes."""
        return prod(self.shape) * _TYPES[self.element].itemsize

    def build(self, weights: Mapping[str, StoredWeight], shared: SharedResults) -> Iterator[Tensor]:
        """The entry's contents, layer by layer, in `element`; others have `shared` results with it.

        UserError where `weights` lacks one, or where they do not give `shape`.
        """
        weight = partial(self._read, weights)
        with self._computing():
            shared.prepare(self.recipe, weight)
        layers = range(self.recipe.layers)
        with ThreadPoolExecutor(_THREADS) as pool:
            for first in layers[::_THREADS]:
                group = layers[first : first + _THREADS]
                yield from pool.map(partial(self._layer, weight, shared.known), group)
        shared.release(self.recipe)

    def _read(
        self, weights: Mapping[str, StoredWeight], name: str, part: ExtractSlice | None = None
    ) -> np.ndarray:
        if name not in weights:
            raise UserError(f"'{self.name}' needs the weight '{name}': the model has none")
        found = weights[name]
        if part is None:
            return _in_numpy(found)
        # Before they are widened, so that nothing else of the file is read.
        if isinstance(found, np.ndarray):
            return part.compute(found)
        return _in_numpy(found[part.within(tuple(found.shape))])

    def _layer(self, weight: WeightReader, known: KnownResults, layer: int) -> Tensor:
        with self._computing():
            values = self._stored(self.recipe.compute(weight, layer, known))
        stacked = (self.recipe.layers, *values.shape)
        if self.shape not in (stacked, stacked[1:] if self.recipe.layers == 1 else stacked):
            raise UserError(f"'{self.name}' must be {self.shape}, but is {stacked}")
        return torch.from_numpy(np.ascontiguousarray(values)).to(_TYPES[self.element])

    @contextmanager
    def _computing(self) -> Iterator[None]:
        try:
            yield
        except (ValueError, IndexError, MemoryError) as error:
            raise UserError(f"'{self.name}' cannot be computed: {error}") from error

    def _stored(self, values: np.ndarray) -> np.ndarray:
        """Blocks as their bytes, or as the values they hold where the entry holds floats."""
        if format_of(values) and self.element == "i8":
            return BlocksToBytesOp.reference(np.ascontiguousarray(values))
        return decode(values)


def stored_parameters(module: ir.Module) -> list[StoredParameter]:
    """The entries that a module with bound parameters asks for, whatever its stage.

    UserError where a recipe is none, as in a file that someone changed.
    """
    return [_stored_parameter(op) for op in globals_with(module, RECIPE)]


def write_archive(
    stored: list[StoredParameter],
    weights: Mapping[str, StoredWeight],
    path: Path,
    proceed: Callable[[], None] = lambda: None,
) -> None:
    """Writes the entries to `path`, an IREE parameter archive. Raises OSError, UserError.

    They go through a file, so that memory is needed for one weight of few layers at a time. Before
    each entry, `proceed` is called, which may end the writing by what it raises.
    """
    with TemporaryDirectory(dir=path.parent) as room:
        archive = Path(room) / path.name
        _write_with_iree(stored, weights, archive, proceed)
        _copy_in_large_pages(archive, path)


def _copy_in_large_pages(source: Path, path: Path) -> None:
    """Copies a file in large pieces, which Linux keeps, and maps, in large pages where it can.

    IREE writes an archive in small pieces. Raises OSError.
    """
    try:
        with source.open("rb") as given, path.open("wb", _LARGE_PAGES) as copy:
            shutil.copyfileobj(given, copy, _LARGE_PAGES)
    except OSError as error:  # that of a full disk does not name the file
        raise OSError(error.errno, error.strerror, str(path)) from error


def _write_with_iree(
    stored: list[StoredParameter],
    weights: Mapping[str, StoredWeight],
    path: Path,
    proceed: Callable[[], None],
) -> None:
    index = rt.ParameterIndex()
    shared = SharedResults(parameter.recipe for parameter in stored)
    with TemporaryFile(dir=path.parent) as scratch:
        for parameter in stored:
            proceed()
            values = _through_file(scratch, parameter.build(weights, shared))
            rt.parameter_index_add_numpy_ndarray(index, parameter.name, values)
        try:
            index.create_archive_file(str(path))
        except IREE_ERRORS as error:
            raise OSError(str(error).rpartition("; ")[2]) from error


def _stored_parameter(op: ir.Operation) -> StoredParameter:
    name, type_ = (op.attributes.get(key) for key in ("sym_name", "type"))
    if not isinstance(name, ir.StringAttr) or not isinstance(type_, ir.TypeAttr):
        raise UserError(f"a global of weights has no name or no type: {op}")
    try:
        recipe = read_recipe(op.attributes[RECIPE])
    except RecipeError as error:
        raise UserError(f"the recipe of '{name.value}' is wrong: {error}") from error
    element = getattr(type_.value, "element_type", None)
    if str(element) not in _TYPES:
        raise UserError(f"'{name.value}' must hold {', '.join(_TYPES)}, but is {type_.value}")
    return StoredParameter(name.value, recipe, tuple(type_.value.shape), str(element))


def _through_file(file: BinaryIO, parts: Iterator[Tensor]) -> np.ndarray:
    """The bytes of `parts`, one after another, as they lie at the end of `file`."""
    start = file.tell()
    for part in parts:
        # NumPy has no bfloat16: the archive holds bytes, the module knows the type.
        file.write(part.reshape(-1).view(torch.uint8).numpy().data)
    file.flush()
    return np.memmap(file, np.uint8, "r", offset=start, shape=file.tell() - start)


def _in_numpy(weight: StoredWeight) -> np.ndarray:
    """`weight` as float32, or as it is where it does not hold floats."""
    if isinstance(weight, np.ndarray):
        return weight
    return (weight.float() if weight.is_floating_point() else weight).detach().numpy()
