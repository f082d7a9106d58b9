"""What contenders need made before they can be opened: in the cache, by a process of its own.

The memory that making takes is not the contender's, and what crashes there ends nobody else.
"""

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from llmc.frontend.bench.contender import MissingError
from llmc.frontend.cache_keys import cache_key, remembered_digests
from llmc.frontend.output_folder import writing
from llmc.frontend.source import source_files
from llmc.runtime.paths import cache_root


def made(model: str, what: dict[str, Any], make: Callable[..., None], *arguments: object) -> Path:
    """What `make(*arguments, path)` makes of the model called `model`; kept at the path returned.

    `what` tells it from all else that is made of that model. `make` leaves the whole at `path`, or
    nothing. Raises MissingError if its process dies, and what it raises.
    """
    key = cache_key([remembered_digests(source_files(model)), what])
    path = cache_root() / "bench" / key
    if path.exists():
        return path
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        try:
            pool.submit(make, *arguments, path).result()
        except BrokenProcessPool as error:
            raise MissingError(f"{make.__name__} crashed on {model}") from error
    return path
