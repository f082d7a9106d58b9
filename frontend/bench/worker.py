"""The process of one contender: opens it, then measures the cases that come in as JSON lines."""

import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from llmc.frontend.bench.contender import Case, MissingError, run
from llmc.frontend.bench.entrants import Entrant
from llmc.pipelines.errors import IREEError
from llmc.runtime.errors import UserError

# Shows what cannot run here, such as code made for another CPU, before anything is measured.
_TRIAL = Case(prompt=4, generated=2)


def main() -> None:
    """Answers each line of standard input with one of standard output, until the input ends."""
    requests, replies = sys.stdin, _private_output()
    entrant = Entrant(**json.loads(requests.readline()))
    begin = time.perf_counter()
    try:
        contender = entrant.open()
        load_s = time.perf_counter() - begin
        run(contender, _TRIAL, [list(range(_TRIAL.prompt))])
    except ModuleNotFoundError as error:
        _reply(replies, missing=f"the package {error.name} is not installed")
        return
    except (MissingError, UserError) as error:
        _reply(replies, missing=str(error))
        return
    except IREEError as error:
        _reply(replies, missing=f"IREE cannot compile this: {error.first}")
        return
    _reply(
        replies,
        version=contender.version,
        weights=contender.weights,
        weight_bytes=contender.weight_bytes,
        load_s=load_s,
    )
    for line in requests:
        request = json.loads(line)
        try:
            measured = run(contender, Case(**request["case"]), request["rows"])
        except (MissingError, UserError) as error:
            _reply(replies, missing=str(error))
            return
        _reply(replies, **asdict(measured), resident_bytes=_resident_bytes())


def _private_output() -> TextIO:
    """Standard output for the replies alone: what libraries print there goes to standard error."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return replies


def _reply(replies: TextIO, **facts: Any) -> None:
    replies.write(json.dumps(facts) + "\n")
    replies.flush()


def _resident_bytes() -> int | None:
    """Memory that this process holds, mapped files included; None outside Linux."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main()
