"""Ranks as threads of the test's process, each with a communicator of its own."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from llmc.runtime.ranks.local import LocalCommunicator, share_memory

T = TypeVar("T")


def on_ranks(
    ranks: int, function: Callable[[LocalCommunicator], T], timeout_s: float = 20.0
) -> list[T]:
    """What `function` returns on each rank; the first error that it raises on one."""
    descriptor = share_memory(ranks)
    communicators = [
        LocalCommunicator(
            rank, ranks, os.dup(descriptor), timeout_s, check=lambda: None, end=lambda: None
        )
        for rank in range(ranks)
    ]
    os.close(descriptor)
    with ThreadPoolExecutor(ranks) as pool:
        return list(pool.map(function, communicators))
