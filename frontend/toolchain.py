"""What decides how a model is compiled, beside the model: packages and llmc's own code."""

from functools import cache
from importlib.metadata import PackageNotFoundError, version

from llmc.pipelines.code_digest import code_digest, package_folders
from llmc.runtime.errors import UserError

_PACKAGES = ("llmc-compiler", "torch", "torch-mlir", "iree-base-compiler", "transformers", "gguf")
_ROOMS = ("dialects", "frontend", "pipelines", "runtime")
# Measures bundles, makes none.
_APART = ("bench",)


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
    return code_digest(package_folders(f"llmc.{room}" for room in _ROOMS), apart=_APART)
