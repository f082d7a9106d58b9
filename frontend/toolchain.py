"""What decides how a model is compiled, beside the model: packages and llmc's own code."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version

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
    with needing_compiler("compiling a model"):
        return {name: version(name) for name in _PACKAGES}


@contextmanager
def needing_compiler(work: str) -> Iterator[None]:
    """Where a package of the compiler is missing, a UserError says that `work` needs it."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise UserError(lacking_compiler(work, error)) from error


def lacking_compiler(work: str, error: ModuleNotFoundError) -> str:
    """What to tell a person whose `work` ended in `error`."""
    return f"{work} needs {error.name}: pip install 'llmc-compiler[compile]'"


@cache
def source_digest() -> str:
    """SHA-256 of llmc's Python code that compiles, so that a changed compiler is another one."""
    return code_digest(package_folders(f"llmc.{room}" for room in _ROOMS), apart=_APART)
