"""The archive of a module's weights, in memory without being read."""

import ctypes
import mmap
from pathlib import Path

import iree.runtime as rt
import numpy as np


def map_archive(path: Path) -> rt.ParameterIndex:
    """The entries of the archive at `path`, whose bytes come from the disk when they are needed.

    They come in large pages, if the system has such for files and does not hold them in small ones
    already: weights are read once for each token, and a CPU finds small pages too slowly. Raises
    OSError, and what IREE raises of a file that is no archive.
    """
    _read_first_page(path)
    index = rt.ParameterIndex()
    # Not what Python maps: IREE 3.13 lets go of that on a worker's thread, without Python's lock.
    index.load(str(path), "irpa")
    in_file = next((entry for _, entry in index.items() if entry.is_file), None)
    if in_file is not None:
        _ask_for_large_pages(np.frombuffer(in_file.file_storage[0].host_allocation, np.uint8))
    return index


def _read_first_page(path: Path) -> None:
    """In large pages, as IREE reads the head of the file before it can be asked for them."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        _ask_for_large_pages(np.frombuffer(mapped, np.uint8))
        mapped.read(1)


def _ask_for_large_pages(mapped: np.ndarray) -> None:
    """Asks the system for large pages, which a kernel that was built without them refuses."""
    if hasattr(mmap, "MADV_HUGEPAGE"):
        address, size = ctypes.c_void_p(mapped.ctypes.data), ctypes.c_size_t(mapped.nbytes)
        ctypes.CDLL(None).madvise(address, size, mmap.MADV_HUGEPAGE)
