"""The memory of this process."""

import ctypes


def return_freed_memory() -> None:
    """Gives back to the system what is free; glibc alone keeps it after a peak. Else nothing."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
