"""Writes the archive of weights that a module names."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import iree.runtime as rt
import torch
from torch import Tensor
from torch_mlir import ir

from llmc.pipelines.passes.base import find
from llmc.pipelines.passes.bind_parameters import SOURCES
from llmc.pipelines.passes.pack_weights import LAYOUT

_TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i64": torch.int64}


@dataclass(frozen=True)
class StoredParameter:
    """One entry of the archive: which weights it holds, how laid out, in which type."""

    name: str
    sources: tuple[str, ...]
    shape: tuple[int, ...]
    element: str
    columns: int | None
    transposed: bool

    def build(self, weights: Mapping[str, Tensor]) -> Tensor:
        """The entry's contents, `shape` of `element`."""
        laid_out = [self._lay_out(weights[source]) for source in self.sources]
        return torch.stack(laid_out).reshape(self.shape).contiguous()

    def _lay_out(self, weight: Tensor) -> Tensor:
        weight = weight.to(_TYPES[self.element])
        if self.columns is None:
            return weight
        rows = weight.mT if self.transposed else weight
        padding = -rows.shape[-2] % self.columns
        rows = torch.nn.functional.pad(rows, (0, 0, 0, padding))
        return rows.unflatten(-2, (-1, self.columns)).mT


def stored_parameters(module: ir.Module) -> list[StoredParameter]:
    """The entries that the globals of a module with bound parameters ask for."""
    return list(_read_globals(module))


def write_archive(stored: list[StoredParameter], weights: Mapping[str, Tensor], path: Path) -> None:
    """Writes the entries to `path`, an IREE parameter archive. Raises OSError."""
    index = rt.ParameterIndex()
    for parameter in stored:
        values = parameter.build(weights)
        # NumPy has no bfloat16: the archive holds bytes, the module knows the type.
        rt.parameter_index_add_numpy_ndarray(
            index, parameter.name, values.view(torch.uint8).numpy()
        )
    path.touch()  # with the user's permissions: IREE's own are narrower
    try:
        index.create_archive_file(str(path))
    except (RuntimeError, IndexError, ValueError) as error:  # IREE's, by the kind of failure
        raise OSError(str(error).rpartition("; ")[2]) from error


def _read_globals(module: ir.Module) -> Iterator[StoredParameter]:
    for op in find(module.operation, "ml_program.global"):
        if SOURCES not in op.attributes:
            continue
        type_ = ir.TypeAttr(op.attributes["type"]).value
        layout = op.attributes.get(LAYOUT)
        yield StoredParameter(
            name=ir.StringAttr(op.attributes["sym_name"]).value,
            sources=tuple(ir.StringAttr(name).value for name in op.attributes[SOURCES]),
            shape=tuple(type_.shape),
            element=str(type_.element_type),
            columns=layout and layout["columns"].value,
            transposed=bool(layout and layout["transposed"].value),
        )


def kv_bytes_per_token(module: ir.Module) -> int:
    """Bytes that one token of one sequence takes in the KV cache of `module`."""
    total = 0
    for op in find(module.operation, "ml_program.global"):
        if SOURCES not in op.attributes:
            type_ = ir.TypeAttr(op.attributes["type"]).value
            layers, _, heads, _, channels = type_.shape
            total += layers * heads * channels * type_.element_type.width // 8
    return total
