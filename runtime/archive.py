"""The archive of a bundle's weights, as the device reads it: the file itself, in memory."""

import contextlib
import mmap
from pathlib import Path

import iree.runtime as rt

_FORMAT = "irpa"


def open_archive(path: Path) -> rt.ParameterIndex:
    """The entries of the archive `path`, mapped: read when they are needed, and never copied.

    By large pages where the system has some, so that a token, which reads all weights, does not
    look for each 4 KiB of them anew. Raises OSError, ValueError, and RuntimeError where it is no
    archive.
    """
    with path.open("rb") as file:
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a kernel without
            content.madvise(mmap.MADV_HUGEPAGE)
    index = rt.ParameterIndex()
    index.load_from_file_handle(rt.FileHandle.wrap_memory(content), _FORMAT)
    return index
