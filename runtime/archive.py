"""The archive of a module's weights, in memory without being read."""

import contextlib
import mmap
from pathlib import Path

import iree.runtime as rt


def map_archive(path: Path) -> rt.ParameterIndex:
    """The entries of the archive at `path`, whose bytes come from the disk when they are needed.

    They come in large pages, if the system has such for files and does not hold them in small ones
    already: weights are read once for each token, and a CPU finds small pages too slowly. Raises
    OSError, and what IREE raises of a file that is no archive.
    """
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # of a kernel that was built without large pages
            mapped.madvise(mmap.MADV_HUGEPAGE)
    index = rt.ParameterIndex()
    index.load_from_file_handle(rt.FileHandle.wrap_memory(mapped), "irpa")
    return index
