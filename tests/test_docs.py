"""The reference pages are what the code says today."""

from pathlib import Path

import pytest

from llmc.tools.docs import PAGES

DOCS = Path(__file__).parent.parent / "docs"


@pytest.mark.parametrize("name", PAGES)
def test_page_is_current(name):
    written = (DOCS / name).read_text(encoding="utf-8")
    assert written == PAGES[name](), f"docs/{name} is not what the code says: run `make docs`"
