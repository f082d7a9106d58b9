"""The user's test of a module: a shell command, and how it ends."""

import os
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from llmc.runtime.errors import UserError

PLACE = "%s"
_CANNOT_RUN = (126, 127)  # sh: not executable, not found


@dataclass(frozen=True)
class Outcome:
    """How a command ended: its exit status, negative for a signal's number, None out of time."""

    status: int | None

    def __str__(self) -> str:
        if self.status is None:
            return "runs out of time"
        if self.status < 0:
            return f"is killed by {signal.Signals(-self.status).name}"
        return f"ends with status {self.status}"


@dataclass(frozen=True)
class Command:
    """A shell command over a file of MLIR, whose path stands for `%s`, or comes last without.

    It may take `timeout` seconds.
    """

    text: str
    timeout: float

    @contextmanager
    def started(self, module: str) -> Iterator[Callable[[], Outcome]]:
        """Starts it on a file that holds `module`; what comes back waits for its end.

        Its output is dropped. At the end of the context it is killed if it still runs. UserError
        where the shell cannot run it.
        """
        nothing = subprocess.DEVNULL
        with tempfile.TemporaryDirectory(prefix="llmc-reduce-") as folder:
            file = Path(folder, "candidate.mlir")
            file.write_text(module, encoding="utf-8")
            process = subprocess.Popen(
                self._line(file),
                shell=True,
                stdin=nothing,
                stdout=nothing,
                stderr=nothing,
                start_new_session=True,
            )
            deadline = time.monotonic() + self.timeout
            try:
                yield lambda: self._wait(process, deadline)
            finally:
                _end(process)

    def run(self, module: str) -> Outcome:
        """Runs it on `module` to its end."""
        with self.started(module) as wait:
            return wait()

    def _line(self, file: Path) -> str:
        path = shlex.quote(str(file))
        return self.text.replace(PLACE, path) if PLACE in self.text else f"{self.text} {path}"

    def _wait(self, process: subprocess.Popen[bytes], deadline: float) -> Outcome:
        try:
            status = process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return Outcome(None)
        if status in _CANNOT_RUN:
            raise UserError(f"the shell cannot run the test '{self.text}': status {status}")
        return Outcome(status)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kills `process` and what it started, unless it has ended."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
