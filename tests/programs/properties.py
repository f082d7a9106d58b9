"""How properties are tried out on random programs, and how a failure is shown."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings


class PropertyError(AssertionError):
    """A property does not hold. The text is the program and the command that shows it."""

    def __init__(self, problem: str, text: str, pipeline: str) -> None:
        file = Path(tempfile.gettempdir(), "llmc-failing-program.mlir")
        file.write_text(text)
        command = f"llmc-opt {file} --pass-pipeline='builtin.module({pipeline})'"
        super().__init__(f"{problem}\n{command}\n\n{text}")


def bounded(examples: int, request: pytest.FixtureRequest) -> Callable:
    """The same examples at every run, and so many of them; ten times as many if thorough."""
    return settings(
        max_examples=examples * (10 if request.config.getoption("--thorough") else 1),
        derandomize=True,
        report_multiple_bugs=False,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
