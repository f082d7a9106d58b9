"""What names a thing in the cache: hashes of all that it is made from."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from llmc.frontend.file_digests import file_digests
from llmc.runtime.paths import cache_root


def cache_key(facts: object) -> str:
    """A hash of `facts`, which JSON can hold."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]


def remembered_digests(paths: Iterable[Path]) -> list[str]:
    """`file_digests`, which the cache remembers. UserError if a file cannot be read."""
    return file_digests(paths, cache_root() / "file_digests.json")
