"""What IREE makes of flags that name a device."""

import io
from contextlib import redirect_stderr
from functools import cache

import iree.compiler as iree

_PROBE = "func.func @probe(%x: tensor<1xf32>) -> tensor<1xf32> { return %x : tensor<1xf32> }"


@cache
def described(*flags: str) -> str | None:
    """A module that says in its attributes all that IREE knows of the device; None of none."""
    try:
        with redirect_stderr(io.StringIO()):  # LLVM lists all CPUs where it knows no such one
            return iree.compile_str(_PROBE, extra_args=[*flags, "--compile-to=flow"]).decode()
    except iree.CompilerToolError:
        return None
