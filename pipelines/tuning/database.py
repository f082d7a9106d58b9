"""What was found best for kernels: a JSON file. Reading it needs no compiler."""

import hashlib
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, astuple, dataclass, fields
from pathlib import Path
from typing import Any

from llmc.runtime.draft import replacing
from llmc.runtime.errors import UserError

SCHEMA = 1

_MOST_BYTES = 64 << 20


@dataclass(frozen=True)
class _Checked:
    """A dataclass of text and numbers that may come from a file."""

    def __post_init__(self) -> None:
        """ValueError for a field that is of another type, empty, or not above 0."""
        for field in fields(self):
            value: Any = getattr(self, field.name)
            kind: Any = field.type
            # `type is`, for True is an instance of int.
            if type(value) is not kind:
                raise ValueError(f"{field.name} must be of type {kind.__name__}")
            if value == "":
                raise ValueError(f"{field.name} must not be empty")
            if kind in (int, float) and not 0 < value < math.inf:
                raise ValueError(f"{field.name} must be above 0 and finite")


@dataclass(frozen=True, order=True)
class Key(_Checked):
    """What a measurement holds for.

    `kind` is the kernel's, `shape` its function's type, `code` a digest of its text, `target` the
    CPU and a digest of its features, `versions` a digest of what makes machine code of it.
    """

    kind: str
    shape: str
    code: str
    target: str
    versions: str


@dataclass(frozen=True)
class Entry(_Checked):
    """The best schedule of a kernel, and `default`, the one that the rules choose.

    Both are text, as `quantized_matvec{panels=4}`. A dispatch of the kernel took so many seconds
    with each, on `threads` threads.
    """

    key: Key
    schedule: str
    default: str
    seconds: float
    default_seconds: float
    threads: int


class Database:
    """Entries, one for each key."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        """Of several entries of one key the last holds."""
        self._entries = {entry.key: entry for entry in entries}

    def __iter__(self) -> Iterator[Entry]:
        """The entries in the order of their keys."""
        return iter(sorted(self._entries.values(), key=lambda entry: entry.key))

    def find(self, key: Key) -> Entry | None:
        """The entry of `key`."""
        return self._entries.get(key)

    def digest(self, versions: str) -> str:
        """SHA-256 of what it has a compiler of these versions do otherwise than the rules."""
        changes = [
            [*astuple(entry.key), entry.schedule]
            for entry in self
            if entry.key.versions == versions and entry.schedule != entry.default
        ]
        return hashlib.sha256(json.dumps(changes).encode()).hexdigest()

    @classmethod
    def read(cls, path: Path) -> "Database":
        """The entries of the file `path`; none where there is no such file.

        UserError if it cannot be read, or is not what `write` writes.
        """
        try:
            with path.open("rb") as file:
                data = file.read(_MOST_BYTES + 1)
            return cls(_parsed(data))
        except FileNotFoundError:
            return cls()
        except OSError as error:
            raise UserError(f"cannot read {path}: {error.strerror}") from error
        except (ValueError, TypeError, RecursionError) as error:
            raise UserError(
                f"{path} is no tuning database: {error}: remove it, or run llmc tune --forget"
            ) from error

    def write(self, path: Path) -> None:
        """Writes the file, whole or not at all. Raises OSError."""
        content = {"schema": SCHEMA, "entries": [asdict(entry) for entry in self]}
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as draft:
            draft.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _parsed(data: bytes) -> Iterator[Entry]:
    """ValueError or TypeError for anything but entries."""
    if len(data) > _MOST_BYTES:
        raise ValueError(f"it is larger than {_MOST_BYTES >> 20} MiB")
    match json.loads(data.decode("utf-8")):
        case {"schema": int(schema)} if schema != SCHEMA:
            raise ValueError(f"another version of llmc wrote it, with schema {schema}")
        case {"schema": int(), "entries": list(entries), **rest} if not rest:
            yield from (_entry(value) for value in entries)
        case _:
            raise ValueError("it is not an object of schema and entries")


def _entry(value: Any) -> Entry:
    if not isinstance(value, dict) or not isinstance(value.get("key"), dict):
        raise ValueError("an entry is not an object with a key")
    return Entry(**{**value, "key": Key(**value["key"])})
