"""The GGUF container: metadata and tensors of a file, every size and type checked.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. The `gguf` package's reader is
not used because it trusts the counts in the file: a wrong one keeps it busy without end.
"""

import math
import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from gguf import GGML_QUANT_SIZES, GGUF_DEFAULT_ALIGNMENT, GGMLQuantizationType, GGUFValueType

from llmc.runtime.errors import UserError

_T = TypeVar("_T")

_VERSIONS = (2, 3)
_MAX_DIMENSIONS = 4
_SCALARS = {
    GGUFValueType.UINT8: "<u1",
    GGUFValueType.INT8: "<i1",
    GGUFValueType.UINT16: "<u2",
    GGUFValueType.INT16: "<i2",
    GGUFValueType.UINT32: "<u4",
    GGUFValueType.INT32: "<i4",
    GGUFValueType.FLOAT32: "<f4",
    GGUFValueType.BOOL: "?",
    GGUFValueType.UINT64: "<u8",
    GGUFValueType.INT64: "<i8",
    GGUFValueType.FLOAT64: "<f8",
}


@dataclass(frozen=True)
class GgufTensor:
    """One tensor of a file: `shape` in elements, outermost first, and `data`, its bytes."""

    shape: tuple[int, ...]
    type: GGMLQuantizationType
    data: np.ndarray


@dataclass(frozen=True)
class GgufFile:
    """What a GGUF file holds; the tensors' bytes stay in the file until they are used."""

    path: Path
    metadata: Mapping[str, Any]
    tensors: Mapping[str, GgufTensor]

    @property
    def architecture(self) -> str:
        """llama.cpp's name for the family of models; UserError if the file states none."""
        return self.value("general.architecture", str)

    def value(self, key: str, kind: type[_T], default: _T | None = None) -> _T:
        """The metadata's `key`, of Python type `kind`.

        UserError if it is of another type, no finite number, or missing where `default` is None.
        """
        value = self.metadata.get(key, default)
        if value is None:
            raise UserError(f"{self.path}: its metadata lack {key}")
        if type(value) is not kind:
            raise UserError(
                f"{self.path}: {key} is of type {type(value).__name__}, not {kind.__name__}"
            )
        if isinstance(value, float) and not math.isfinite(value):
            raise UserError(f"{self.path}: {key} is {value}")
        return value


def read_gguf(path: Path) -> GgufFile:
    """Reads metadata and tensor table of the GGUF file at `path` and maps its tensors.

    UserError if it is no GGUF file (of version 2 or 3, little-endian), or damaged, or has a tensor
    of an unknown type.
    """
    try:
        with path.open("rb") as file:
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise UserError(f"{path} is empty") from error
    return _Reader(path, content).read()


class _Reader:
    """Walks through the header; every step is within the file or a UserError."""

    def __init__(self, path: Path, content: mmap.mmap) -> None:
        self._path = path
        self._content = content
        self._position = 0

    def read(self) -> GgufFile:
        if self._content[:4] != b"GGUF":
            raise UserError(f"{self._path} is not a GGUF file")
        self._position = 4
        version = self._unsigned(4)
        if version not in _VERSIONS:
            raise UserError(f"{self._path} is GGUF version {version}; llmc reads versions 2 and 3")
        tensor_count, entry_count = self._unsigned(8), self._unsigned(8)
        metadata: dict[str, Any] = {}
        for _ in range(entry_count):
            key = self._name()
            if key in metadata:
                raise self._damaged(f"{key} appears twice")
            metadata[key] = self._value(self._unsigned(4))
        table = [self._tensor_entry() for _ in range(tensor_count)]
        alignment = metadata.get("general.alignment", GGUF_DEFAULT_ALIGNMENT)
        if type(alignment) is not int or alignment < 1 or alignment & (alignment - 1):
            raise self._damaged(f"its alignment is {alignment}")
        start = -(-self._position // alignment) * alignment
        tensors: dict[str, GgufTensor] = {}
        for name, shape, type_number, offset in table:
            if name in tensors:
                raise self._damaged(f"tensor {name} appears twice")
            tensors[name] = self._tensor(name, shape, type_number, start + offset)
        return GgufFile(self._path, metadata, tensors)

    def _damaged(self, what: str) -> UserError:
        return UserError(f"{self._path} is damaged: {what}: download it again")

    def _take(self, count: int) -> bytes:
        end = self._position + count
        if end > len(self._content):
            raise self._damaged(f"it ends within its header, after {len(self._content)} bytes")
        taken = self._content[self._position : end]
        self._position = end
        return taken

    def _unsigned(self, width: int) -> int:
        return int.from_bytes(self._take(width), "little")

    def _string(self) -> str:
        start = self._position
        try:
            return self._take(self._unsigned(8)).decode("utf-8")
        except UnicodeDecodeError as error:
            raise self._damaged(f"the text at byte {start} is not UTF-8") from error

    def _name(self) -> str:
        name = self._string()
        if not name.isprintable():  # it will be shown in messages
            raise self._damaged(f"the name {name!r}")
        return name

    def _value(self, type_number: int) -> Any:
        """A metadata value: int, float, bool, str, or a list of one of these."""
        if type_number == GGUFValueType.STRING:
            return self._string()
        if type_number == GGUFValueType.ARRAY:
            element, count = self._unsigned(4), self._unsigned(8)
            if element == GGUFValueType.STRING:
                return [self._string() for _ in range(count)]
            return self._scalars(element, count)
        return self._scalars(type_number, 1)[0]

    def _scalars(self, type_number: int, count: int) -> list[Any]:
        if type_number not in _SCALARS:
            raise self._damaged(f"a value of type {type_number} at byte {self._position}")
        dtype = np.dtype(_SCALARS[GGUFValueType(type_number)])
        return np.frombuffer(self._take(count * dtype.itemsize), dtype).tolist()

    def _tensor_entry(self) -> tuple[str, tuple[int, ...], int, int]:
        name = self._name()
        dimensions = self._unsigned(4)
        if not 1 <= dimensions <= _MAX_DIMENSIONS:
            raise self._damaged(f"tensor {name} has {dimensions} dimensions")
        innermost_first = struct.unpack(f"<{dimensions}Q", self._take(8 * dimensions))
        return name, innermost_first[::-1], self._unsigned(4), self._unsigned(8)

    def _tensor(
        self, name: str, shape: tuple[int, ...], type_number: int, start: int
    ) -> GgufTensor:
        try:
            kind = GGMLQuantizationType(type_number)
        except ValueError as error:
            raise UserError(
                f"{self._path}: tensor {name} has type {type_number}, which llmc does not know"
            ) from error
        block_elements, block_bytes = GGML_QUANT_SIZES[kind]
        if 0 in shape or shape[-1] % block_elements:
            raise self._damaged(f"tensor {name} has shape {shape} in {kind.name}")
        size = math.prod(shape) // block_elements * block_bytes
        if start + size > len(self._content):
            raise self._damaged(
                f"tensor {name} ends at byte {start + size}, the file at {len(self._content)}"
            )
        return GgufTensor(shape, kind, np.frombuffer(self._content, np.uint8, size, start))
