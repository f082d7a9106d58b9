"""`--verify-diagnostics`: holds what is emitted against comments that say what is expected.

    // expected-error@+1 {{must have its length = 6}}
    // expected-note-re@above {{.*from here}}
    // expected-warning@unknown {{no place}}

The offset is of lines: `@+N`, `@-N`, `@above`, `@below` the line of the comment, or none for the
line itself; `@unknown` is for what has no place. Several stand in one line behind each other.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from torch_mlir import ir

from llmc.pipelines.driver.diagnostics import SEE_OPERATION, Place, Source, message_of
from llmc.runtime.errors import UserError

_EXPECTED = re.compile(
    r"expected-(?P<severity>error|note|remark|warning)(?P<re>-re)?"
    r" *(?:@(?P<offset>[+-]\d+|above|below|unknown))? *(?=\{\{)"
)
_BRACES = re.compile(r"\{\{|\}\}")
_INLINE_REGEX = re.compile(r"\{\{(.*?)\}\}")


@dataclass
class Expected:
    """One comment: what should be emitted at `line` (None: anywhere without a place).

    The message must hold `text`, or match `regex` where there is one. `place` is where the comment
    stands, `width` the number of its letters.
    """

    severity: str
    line: int | None
    text: str
    regex: re.Pattern[str] | None
    place: Place
    width: int
    met: bool = False

    def matches(self, severity: str, line: int | None, message: str) -> bool:
        """Whether a diagnostic is the one that is expected."""
        if (severity, line) != (self.severity, self.line):
            return False
        if self.regex is not None:
            return self.regex.search(message) is not None
        return self.text in message


@dataclass
class ExpectedDiagnostics:
    """The comments of one source, and what was emitted that none of them expects.

    `only_expected`: the latter is no fault.
    """

    source: Source
    only_expected: bool = False
    expected: list[Expected] = field(init=False)
    faults: list[str] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.expected = list(_read(self.source))

    def check(self, diagnostic: ir.Diagnostic) -> bool:
        """Takes a diagnostic and its notes as emitted."""
        severity, message = diagnostic.severity.name.lower(), self.source.message(diagnostic)
        places = [p for p in self.source.places(diagnostic.location) if p.file == self.source.name]
        place = places[0] if places else None
        line = place.line if place else None
        for one in self.expected:
            if not one.met and one.matches(severity, line, message):
                one.met = True
                break
        else:
            if not self.only_expected:
                said = f"error: unexpected {severity}: {message}"
                self.faults += self.source.report(place, said)
        for note in diagnostic.notes:
            if not message_of(note).startswith(SEE_OPERATION):
                self.check(note)
        return True

    def report(self) -> list[str]:
        """The lines that say what was not expected, or expected and not emitted."""
        lines = list(self.faults)
        for one in self.expected:
            if not one.met:
                said = f'error: expected {one.severity} "{one.text}" was not produced'
                lines += self.source.report(one.place, said, one.width)
        return lines


def _read(source: Source) -> Iterator[Expected]:
    above = 0  # the last line without such a comment
    waiting: list[Expected] = []  # those for the next such line
    for number, line in enumerate(source.text.split("\n"), start=1):
        found = list(_EXPECTED.finditer(line))
        if not found:
            for one in waiting:
                one.line = number
            waiting, above = [], number
        for match in found:
            text = _between_braces(line[match.end() :])
            place = Place(source.name, number, len(line[: match.start()].encode()) + 1)
            width = len(match[0]) + len(text) + len("{{}}")
            regex = _as_regex(text, place) if match["re"] else None
            one = Expected(match["severity"], number, text, regex, place, width)
            offset = match["offset"]
            if offset == "unknown":
                one.line = None
            elif offset == "above":
                one.line = above
            elif offset == "below":
                waiting.append(one)
            elif offset:
                one.line = number + int(offset)
            yield one


def _between_braces(text: str) -> str:
    """What stands between the double braces that `text` begins with, others inside included."""
    depth = 0
    for brace in _BRACES.finditer(text):
        depth += 1 if brace[0] == "{{" else -1
        if depth == 0:
            return text[2 : brace.start()]
    return text[2:]


def _as_regex(text: str, place: Place) -> re.Pattern[str]:
    """The pattern of `expected-*-re`: regular expressions stand between double braces in it.

    UserError where one of them is none.
    """
    parts, end = [], 0
    for match in _INLINE_REGEX.finditer(text):
        parts += [re.escape(text[end : match.start()]), f"(?:{match[1]})"]
        end = match.end()
    try:
        return re.compile("".join([*parts, re.escape(text[end:])]))
    except re.error as error:
        raise UserError(f"{place.file}:{place.line}: no regular expression: {error}") from error
