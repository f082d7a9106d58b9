"""Where llmc keeps what it can make or fetch again."""

import os
from pathlib import Path


def cache_root() -> Path:
    """The user's cache folder for llmc, which may not exist yet.

    `$LLMC_CACHE`, else `$XDG_CACHE_HOME/llmc` (XDG base directory specification), else
    `~/.cache/llmc`.
    """
    if folder := os.environ.get("LLMC_CACHE"):
        return Path(folder)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "llmc"
