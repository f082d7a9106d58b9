"""What decides how a model is compiled, beside the model: packages and llmc's own code."""

import hashlib
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from llmc.runtime.errors import UserError

_PACKAGES = ("llmc-compiler", "torch", "torch-mlir", "iree-base-compiler", "transformers")
_ROOMS = ("dialects", "frontend", "pipelines", "runtime")


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


def source_digest() -> str:
    """SHA-256 of llmc's Python code that compiles, so that a changed compiler is another one."""
    digest = hashlib.sha256()
    for room in _ROOMS:
        spec = find_spec(f"llmc.{room}")
        for folder in spec.submodule_search_locations or () if spec else ():
            for path in sorted(Path(folder).rglob("*.py")):
                name, code = str(path.relative_to(folder)), path.read_bytes()
                digest.update(f"{room}/{name} {len(code)}\n".encode() + code)
    return digest.hexdigest()
