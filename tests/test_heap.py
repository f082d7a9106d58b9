"""What is done for the memory of a process."""

import gc
from collections.abc import Iterator

import pytest

from llmc.runtime.heap import importing


@pytest.fixture(params=[True, False], ids=["enabled", "disabled"])
def enabled(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Whether the garbage collector is, before a test."""
    before = gc.isenabled()
    (gc.enable if request.param else gc.disable)()
    yield request.param
    (gc.enable if before else gc.disable)()


def test_nothing_is_collected_while_importing(enabled: bool) -> None:
    with importing():
        assert not gc.isenabled()
    assert gc.isenabled() is enabled


def test_an_import_that_fails_leaves_the_collector_as_it_was(enabled: bool) -> None:
    with pytest.raises(ModuleNotFoundError), importing():
        import llmc.nowhere  # type: ignore[import-not-found]  # noqa: F401
    assert gc.isenabled() is enabled
