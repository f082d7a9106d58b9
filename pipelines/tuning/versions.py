"""What makes machine code of a kernel, so that a measurement holds only for the same."""

import hashlib
import json
from functools import cache
from importlib.metadata import version

from llmc.pipelines.code_digest import code_digest, package_folders

_PACKAGES = ("torch-mlir", "iree-base-compiler", "iree-base-runtime")
_ROOMS = ("llmc.dialects", "llmc.pipelines")
# Split models over ranks and shorten reports of bugs, but make no kernel.
_APART = ("reduction", "sharding")


@cache
def kernel_versions() -> str:
    """A digest of llmc's code that makes kernels and of the packages that compile and run them."""
    code = code_digest(package_folders(_ROOMS), apart=_APART)
    facts = [code, *map(version, _PACKAGES)]
    return short_digest(json.dumps(facts))


def short_digest(text: str) -> str:
    """The first 64 bits of SHA-256, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
