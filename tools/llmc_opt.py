"""`llmc-opt`: runs passes, ours and MLIR's, on a file of MLIR, as `mlir-opt` does."""

import ctypes
import os
import signal
import sys

from llmc.runtime.errors import UserError
from llmc.runtime.heap import importing
from llmc.tools.opt.arguments import parse_arguments
from llmc.tools.terminal import drop, note, write

_ENDING = "SIGHUP", "SIGINT", "SIGTERM"
"""Signals by which somebody ends the command: the child, which does its work, gets them too."""

_PR_SET_PDEATHSIG = 1
"""Linux's call by which a process asks for a signal at its parent's end: prctl(2)."""


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; the exit status is 0, or 1 after an error, as `mlir-opt`'s.

    Without `arguments` they are the command line's, and a crash inside MLIR is an error too.
    """
    if arguments is not None:
        return _run(arguments)
    return _survive(sys.argv[1:])


def _run(arguments: list[str]) -> int:
    try:
        options = parse_arguments(arguments)
        with importing():
            # Here, since MLIR takes longer to load than --help to print.
            from llmc.tools.opt.session import run
        status = run(options)
        if sys.stdout is not None:
            write("")  # flushes what schedules of the user's have printed
        return status
    except UserError as error:
        note(f"error: {error}")
        return 1
    except BrokenPipeError:  # by `head`, say, which has seen enough
        drop(sys.stdout)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except RecursionError:
        note("error: the IR or the pipeline is nested too deep")
        return 1
    except Exception as error:
        from llmc.pipelines.driver.bugs import described

        note(f"error: llmc-opt has a bug: {described(error)}")
        return 1


def _survive(arguments: list[str]) -> int:
    """Runs the command in a child process, so that there is somebody to tell of its crash."""
    if not hasattr(os, "fork"):
        return _run(arguments)
    child = os.fork()
    if child == 0:
        _end_with_parent()
        os._exit(_run(arguments))
    for name in _ENDING:
        signal.signal(signal.Signals[name], lambda number, _frame: os.kill(child, number))
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status):
        return os.waitstatus_to_exitcode(status)
    number = signal.Signals(os.WTERMSIG(status))
    return 128 + number if number.name in _ENDING else _report_crash(arguments, number)


def _end_with_parent() -> None:
    """Has Linux end the child where its parent is ended at once: MLIR may be at work for long."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _report_crash(arguments: list[str], number: signal.Signals) -> int:
    reproducer = parse_arguments(arguments).reproducer
    hint = "add --reproducer=FILE to see in which pass"
    if reproducer is not None:
        from pathlib import Path

        from llmc.pipelines.driver.reproducer import keep

        kept = keep(Path(reproducer))
        hint = f"see {reproducer}" if kept else "not in a pass, but before or after"
    note(f"error: MLIR crashed with {number.name}: {hint}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
