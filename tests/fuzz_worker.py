"""Runs `llmc-opt` again and again without starting Python anew: `python tests/fuzz_worker.py`.

Standard input holds a command line as JSON in each line, standard output what came of it: the exit
status, negative for the signal that ended it, and what it wrote to standard error.
"""

import json
import os
import resource
import signal
import sys
import tempfile
from typing import BinaryIO

from llmc.tools import llmc_opt
from llmc.tools.opt import session  # noqa: F401 (what the command loads when it is needed)

SECONDS = 20
MEMORY = 8 << 30


def main() -> None:
    """Answers until the input ends."""
    with tempfile.TemporaryFile() as errors:
        for line in sys.stdin:
            status = run(json.loads(line), errors)
            errors.seek(0)
            said = errors.read().decode("utf-8", "replace")
            errors.seek(0)
            errors.truncate()
            print(json.dumps([status, said]), flush=True)


def run(arguments: list[str], errors: BinaryIO) -> int:
    """The exit status of the command in a process of its own."""
    child = os.fork()
    if child == 0:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for number, file in enumerate((nothing, nothing, errors.fileno())):
            os.dup2(file, number)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.alarm(SECONDS)
        sys.argv = ["llmc-opt", *arguments]
        status = 70
        try:
            status = llmc_opt.main()
        except SystemExit as end:  # of --help
            status = end.code or 0
        except BaseException:
            import traceback

            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    _, ended = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(ended)


if __name__ == "__main__":
    main()
