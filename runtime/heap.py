"""The memory of this process."""

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager


def return_freed_memory() -> None:
    """Gives back to the system what is free; glibc alone keeps it after a peak. Else nothing."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


@contextmanager
def importing() -> Iterator[None]:
    """Without Python's garbage collector, which finds nothing in modules and looks many times.

    It takes a fifth of the time in which PyTorch, transformers and MLIR are imported.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def imports_uncollected() -> Iterator[None]:
    """The garbage collector passes over what is imported: half a million objects by then."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
