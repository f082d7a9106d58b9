"""Mangles texts, and runs `llmc-opt` on what comes of it."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st

ROOT = Path(__file__).parent.parent

_TOKENS = re.compile(rb"\w+|\s+|[^\w\s]")
_STRANGE = [
    b"",
    b"\0",
    b"\xff\xfe",
    b"\xc3(",
    b"99999999999999999999999999",
    b"-1",
    b"0x",
    b"1e999",
    b"?",
    b"%",
    b"!llmc.q4_0",
    b"#map",
    b'"',
    b"\\",
    b"// -----",
    b"loc(",
    b"dense<",
    b"tensor<?x*xf32>",
    b"expected-error {{",
    b"{-#",
]
_BRACKETS = [b"(", b")", b"{", b"}", b"[", b"]", b"<", b">", b"(<[{"]


@dataclass(frozen=True)
class Mutation:
    """One change of a text: `kind` says which, `place` and `other` are tokens by number."""

    kind: str
    place: int
    other: int

    def apply(self, text: bytes) -> bytes:
        """The text with the change."""
        tokens = _TOKENS.findall(text)
        if not tokens:
            return text + _STRANGE[self.other % len(_STRANGE)]
        return b"".join(KINDS[self.kind](tokens, self.place % len(tokens), self.other))


def _swap(tokens: list[bytes], place: int, other: int) -> list[bytes]:
    other %= len(tokens)
    new = list(tokens)
    new[place], new[other] = new[other], new[place]
    return new


def _nest(tokens: list[bytes], place: int, other: int) -> list[bytes]:
    deep = _BRACKETS[other % len(_BRACKETS)] * 10 ** (other % 5)
    return [*tokens[:place], deep, *tokens[place:]]


def _repeat(tokens: list[bytes], place: int, other: int) -> list[bytes]:
    part = tokens[place : place + 1 + other % 9]
    return [*tokens[:place], *part * (2 + other % 300), *tokens[place:]]


KINDS: dict[str, Callable[[list[bytes], int, int], list[bytes]]] = {
    "delete": lambda t, at, k: [*t[:at], *t[at + 1 + k % 4 :]],
    "duplicate": lambda t, at, k: [*t[: at + 1], *t[at : at + 1 + k % 3], *t[at + 1 :]],
    "swap": _swap,
    "truncate": lambda t, at, k: t[:at],
    "insert": lambda t, at, k: [*t[:at], _STRANGE[k % len(_STRANGE)], *t[at:]],
    "replace": lambda t, at, k: [*t[:at], _STRANGE[k % len(_STRANGE)], *t[at + 1 :]],
    "copy": lambda t, at, k: [*t[:at], t[k % len(t)], *t[at + 1 :]],
    "byte": lambda t, at, k: [*t[:at], bytes([k % 256]), *t[at + 1 :]],
    "nest": _nest,
    "repeat": _repeat,
}

mutations = st.lists(
    st.builds(Mutation, st.sampled_from(sorted(KINDS)), st.integers(0, 2000), st.integers(0, 2000)),
    min_size=1,
    max_size=4,
)


def mangled(text: bytes, changes: list[Mutation]) -> bytes:
    """`text` after all changes."""
    for change in changes:
        text = change.apply(text)
    return text


class FrontDoor:
    """`llmc-opt` in a process that has loaded all that it needs."""

    def __init__(self) -> None:
        self._worker = subprocess.Popen(
            [sys.executable, ROOT / "tests" / "fuzz_worker.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str) -> tuple[int, str]:
        """The exit status, negative where a signal ended it, and standard error."""
        assert self._worker.stdin and self._worker.stdout
        print(json.dumps(arguments), file=self._worker.stdin, flush=True)
        status, said = json.loads(self._worker.stdout.readline())
        return status, said

    def close(self) -> None:
        """Ends the process."""
        self._worker.communicate()
