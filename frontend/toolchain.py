"""What decides how a model is compiled, beside the model: packages and llmc's own code."""

import hashlib
from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from llmc.runtime.errors import UserError

_PACKAGES = ("llmc-compiler", "torch", "torch-mlir", "iree-base-compiler", "transformers", "gguf")
_ROOMS = ("dialects", "frontend", "pipelines", "runtime")
# Measures bundles, makes none.
_APART = "bench"


def versions() -> dict[str, str]:
    """The packages that decide what a bundle is, and their versions here.

    UserError if one is not installed.
    """
    try:
        return {name: version(name) for name in _PACKAGES}
    except PackageNotFoundError as error:
        raise UserError(
            f"compiling a model needs {error.name}: pip install 'llmc-compiler[compile]'"
        ) from error


@cache
def source_digest() -> str:
    """SHA-256 of llmc's Python code that compiles, so that a changed compiler is another one."""
    specs = [find_spec(f"llmc.{room}") for room in _ROOMS]
    return code_digest(
        Path(folder) for spec in specs if spec for folder in spec.submodule_search_locations or ()
    )


def code_digest(folders: Iterable[Path]) -> str:
    """SHA-256 of the names and contents of the Python files in `folders`, in their order."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            if path.relative_to(folder).parts[0] == _APART:
                continue
            code = path.read_bytes()
            digest.update(f"{path.relative_to(folder)} {len(code)}\n".encode() + code)
    return digest.hexdigest()
