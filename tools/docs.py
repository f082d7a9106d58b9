"""`make docs`: writes the reference pages that are generated into the folder `docs`."""

import sys
from collections.abc import Callable
from pathlib import Path

from llmc.dialects.documentation import dialect_page
from llmc.pipelines.documentation import passes_page
from llmc.pipelines.schedules.documentation import schedules_page

PAGES: dict[str, Callable[[], str]] = {
    "dialect.md": dialect_page,
    "passes.md": passes_page,
    "schedules.md": schedules_page,
}


def main(folder: str) -> None:
    """Writes every page into `folder`."""
    for name, page in PAGES.items():
        (Path(folder) / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
