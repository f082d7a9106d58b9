"""MLIR's syntax of pipelines, as a tree.

builtin.module(fuse-qkv,func.func(canonicalize,cse),lower-llmc{ops=attention})
"""

import re
from dataclasses import dataclass

from llmc.runtime.errors import UserError

ANY = "any"
"""The anchor that stands for operations of all kinds."""

_OPEN, _CLOSE = "({", ")}"
_NAME = re.compile(r"[\w.-]+")
_QUOTED = re.compile(r'"[^"]*"|\'[^\']*\'')
# Quoted text, so that no blanks in it are found, or blanks.
_BLANKS = re.compile(rf"({_QUOTED.pattern})|\s+")
_DEEPEST = 64


@dataclass(frozen=True)
class Element:
    """A pass with the text of its options, or an anchor with the elements that run on it."""

    name: str
    options: str = ""
    nested: tuple["Element", ...] | None = None

    def __str__(self) -> str:
        if self.nested is not None:
            return f"{self.name}({','.join(map(str, self.nested))})"
        return f"{self.name}{{{self.options}}}" if self.options else self.name


def parse_elements(text: str) -> tuple[Element, ...]:
    """The elements of a list, which commas separate; UserError for what is no such list."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:  # bytes of the command line that are no text
        raise UserError("the pipeline is not valid UTF-8") from error
    return _parse(text, 0)


def _parse(text: str, depth: int) -> tuple[Element, ...]:
    if depth > _DEEPEST:
        raise UserError(f"the pipeline is nested more than {_DEEPEST} deep")
    return tuple(_element(part, depth) for part in _split(text))


def _element(text: str, depth: int) -> Element:
    if not text:
        raise UserError("the pipeline has an empty element")
    name = _NAME.match(text)
    rest = text[name.end() :].strip() if name else text
    if name and not rest:
        return Element(name[0])
    if name and rest[0] == "{" and _closes_at_end(rest):
        return Element(
            name[0], options=_BLANKS.sub(lambda each: each[1] or " ", rest[1:-1]).strip()
        )
    if name and rest[0] == "(" and _closes_at_end(rest):
        return Element(name[0], nested=_parse(rest[1:-1], depth + 1))
    raise UserError(f"a pipeline takes PASS, PASS{{OPTIONS}} or ANCHOR(...), not '{text}'")


def _split(text: str) -> list[str]:
    """The parts between commas that no bracket or quote encloses."""
    if not text.strip():
        return []
    parts, start, depth = [], 0, 0
    for at, letter in _unquoted(text):
        depth += (letter in _OPEN) - (letter in _CLOSE)
        if depth < 0:
            break
        if letter == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    if depth:
        raise UserError(f"the brackets of the pipeline do not match, at '{text[start:].strip()}'")
    return [*parts, text[start:].strip()]


def _closes_at_end(text: str) -> bool:
    """Whether the bracket that `text` begins with is closed by its last letter."""
    open_: list[str] = []
    for at, letter in _unquoted(text):
        if letter in _OPEN:
            open_.append(_CLOSE[_OPEN.index(letter)])
        elif letter in _CLOSE:
            if not open_ or open_.pop() != letter:
                return False
            if not open_:
                return at == len(text) - 1
    return False


def _unquoted(text: str) -> list[tuple[int, str]]:
    quoted = {at for match in _QUOTED.finditer(text) for at in range(*match.span())}
    return [(at, letter) for at, letter in enumerate(text) if at not in quoted]
