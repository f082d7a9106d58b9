"""A contender in a process of its own, so that no thread pool disturbs another's.

Between its turns a worker waits for a line of input, and its pools sleep.
"""

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import IO, Any

from llmc.frontend.bench.contender import Case, MissingError, Rows
from llmc.frontend.bench.entrants import Entrant
from llmc.runtime.errors import UserError


@dataclass(frozen=True)
class Facts:
    """What a contender says of itself once it is open; see `Contender`."""

    version: str
    weights: str
    weight_bytes: int | None
    load_s: float


@dataclass(frozen=True)
class Sample:
    """One case, measured once; see `Run`. `resident_bytes` is the process's memory after it."""

    prefill_s: float
    decode_s: float
    tokens: list[int]
    resident_bytes: int | None


class Remote:
    """An open contender, in the process `process` that writes its errors to `errors`."""

    def __init__(self, entrant: Entrant, process: subprocess.Popen[str], errors: IO[bytes]) -> None:
        """Has the worker open `entrant`. Raises MissingError if it cannot take part."""
        self._process = process
        self._errors = errors
        try:
            reply = self._ask(asdict(entrant))
        except UserError as error:
            raise MissingError(str(error)) from error
        if "missing" in reply:
            raise MissingError(reply["missing"])
        self.facts = Facts(**reply)

    def measure(self, case: Case, rows: Rows) -> Sample:
        """Runs one case. UserError if it cannot, or its process died of it."""
        reply = self._ask({"case": asdict(case), "rows": rows})
        if "missing" in reply:
            raise UserError(reply["missing"])
        return Sample(**reply)

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            reply: dict[str, Any] = json.loads(self._process.stdout.readline())
        except (BrokenPipeError, ValueError) as error:
            raise UserError(self._last_words()) from error
        return reply

    def _last_words(self) -> str:
        status = self._process.wait()
        if status < 0:
            return f"its process was ended by {signal.Signals(-status).name}"
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").split("\n")
        return next(
            (line.strip() for line in reversed(lines) if line.strip()), f"it ended with {status}"
        )


@contextmanager
def opened(entrant: Entrant) -> Iterator[Remote]:
    """Starts a worker for `entrant`, and ends it. Raises MissingError if it cannot take part."""
    command = [sys.executable, "-m", "llmc.frontend.bench.worker"]
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        try:
            yield Remote(entrant, process, errors)
        finally:
            process.kill()
            # Drops what a process that is dead was asked last; Popen itself would raise.
            process.communicate()
