"""Where llmc keeps what it can make or fetch again."""

import os
from pathlib import Path

from llmc.runtime.errors import UserError


def cache_root() -> Path:
    """The user's cache folder for llmc, which may not exist yet.

    `$LLMC_CACHE`, else `$XDG_CACHE_HOME/llmc` (XDG base directory specification), else
    `~/.cache/llmc`. UserError where there is no home folder.
    """
    if folder := os.environ.get("LLMC_CACHE"):
        return Path(folder)
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "llmc"
    try:
        return Path.home() / ".cache" / "llmc"
    except RuntimeError as error:
        raise UserError("there is no home folder for the cache: set LLMC_CACHE") from error
