"""SHA-256 of large files, remembered from run to run."""

import contextlib
import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from llmc.runtime.draft import replacing
from llmc.runtime.errors import UserError
from llmc.runtime.manifest import FileFacts

# A file changed twice within the resolution of its time stamps looks as if it had changed once.
_SETTLED_NS = 2_000_000_000


def file_digests(paths: Iterable[Path], memory: Path) -> list[str]:
    """SHA-256 of each file in hexadecimal.

    A file is read again only if its size, times or inode are not those noted in the JSON file
    `memory`, which is made where it can be. UserError if a file cannot be read.
    """
    known = _read(memory)
    noted = dict(known)
    digests = [_digest(path.absolute(), noted) for path in paths]
    if noted != known:
        with contextlib.suppress(OSError):  # then the next run reads the files again
            _write(noted, memory)
    return digests


def _digest(path: Path, noted: dict[str, Any]) -> str:
    try:
        status = path.stat()
        identity = [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
        match noted.get(str(path)):
            case [list(found), str(digest)] if found == identity:
                return digest
        digest = FileFacts.of(path).sha256
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    if time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) > _SETTLED_NS:
        noted[str(path)] = [identity, digest]
    return digest


def _read(memory: Path) -> dict[str, Any]:
    try:
        content = json.loads(memory.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _write(noted: dict[str, Any], memory: Path) -> None:
    memory.parent.mkdir(parents=True, exist_ok=True)
    with replacing(memory) as draft:
        draft.write_text(json.dumps(noted), encoding="utf-8")
