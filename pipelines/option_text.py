"""A dataclass's fields as the options of a pass, a pipeline or a schedule: `{rows=16 unroll=2}`.

The name of a field, with `-` for `_`, is the name of the option; its type says how to read the
value, and which there are; its default holds where the option is not given.
"""

import re
from collections.abc import Iterator
from dataclasses import MISSING, Field, dataclass, fields
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from llmc.runtime.errors import UserError

T = TypeVar("T")

_READABLE = (bool, int, float, str)
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
# A value may be quoted; a comma that is followed by `name=` separates options as a space does.
_OPTION = re.compile(
    r"""(?P<name>[\w-]+)=(?P<value>"[^"]*"|'[^']*'|(?:[^\s,"']|,(?!\s*[\w-]+=))*)(?:\s*,\s*|\s+|$)"""
)


@dataclass(frozen=True)
class Range:
    """The least and the greatest value of an option: `rows: Annotated[int, Range(1, 256)] = 4`."""

    least: int
    most: int

    def __contains__(self, value: int) -> bool:
        return self.least <= value <= self.most

    def __str__(self) -> str:
        return f"from {self.least} to {self.most}"


@dataclass(frozen=True)
class OneOf:
    """The values of an option: `storage: Annotated[str, OneOf(("f32", "f16"))] = "f32"`."""

    values: tuple[str, ...]

    def __contains__(self, value: str) -> bool:
        return value in self.values

    def __str__(self) -> str:
        return f"one of {', '.join(self.values)}"


_INT64 = Range(-(2**63), 2**63 - 1)


def check_options(instance: object) -> None:
    """ValueError if a field of a dataclass's instance is not in its type's `Range` or `OneOf`."""
    for field in option_fields(type(instance)):
        _, allowed = _type_and_values(field.type)
        value = getattr(instance, field.name)
        if allowed is not None and value not in allowed:
            raise ValueError(f"{option_name(field)} must be {allowed}, not {value!r}")


def parse_options(what: str, kind: type[T], text: str, others: T | None = None) -> T:
    """An instance of the dataclass `kind` from `text`, the inside of the braces.

    Options that are not given are those of `others`, or their defaults. `what` names it in errors.
    UserError for an option that it does not take, or a value that is not of the option's type or
    that the dataclass refuses with ValueError.
    """
    known = {option_name(field): field for field in option_fields(kind)}
    types = _types(what, kind)
    given_otherwise = [] if others is None else known.values()
    values = {field.name: getattr(others, field.name) for field in given_otherwise}
    for name, value in _split(what, text):
        if name not in known:
            takes = f"its options are {', '.join(known)}" if known else "it has none"
            raise UserError(f"{what} has no option '{name}': {takes}")
        field = known[name]
        values[field.name] = _value(f"option '{name}' of {what}", value, types[field.name])
    missing = [name for name, field in known.items() if _is_missing(field, values)]
    if missing:
        raise UserError(f"{what} needs the option '{missing[0]}'")
    try:
        return kind(**values)
    except ValueError as error:
        raise UserError(f"{what}: {error}") from error


def options_text(instance: object) -> str:
    """The options of a dataclass's instance, braces included, as `parse_options` reads them."""
    pairs = [
        f"{option_name(field)}={_text(getattr(instance, field.name))}"
        for field in option_fields(type(instance))
    ]
    return f"{{{' '.join(pairs)}}}" if pairs else ""


def describe_options(kind: type) -> str:
    """The options of the dataclass `kind` with their defaults, as `{rows=16 unroll=2}`."""
    pairs = [
        f"{option_name(field)}={'' if field.default is MISSING else _text(field.default)}"
        for field in option_fields(kind)
    ]
    return f"{{{' '.join(pairs)}}}"


def document_options(name: str, kind: type) -> str:
    """The options of the dataclass `kind` of what is called `name`, in Markdown; "" for none."""
    if not (options := option_fields(kind)):
        return ""
    types = ", ".join(f"`{option_name(field)}` ({_type_text(field.type)})" for field in options)
    return f"Options: {types}; by default `{name}{describe_options(kind)}`.\n"


def option_fields(kind: type) -> tuple[Field[Any], ...]:
    """The fields of the dataclass `kind` that are options."""
    return tuple(field for field in fields(kind) if field.init)


def option_name(field: Field[Any]) -> str:
    """What the option of a field is called."""
    return field.name.replace("_", "-")


def _split(what: str, text: str) -> Iterator[tuple[str, str]]:
    rest = text.strip()
    while rest:
        option = _OPTION.match(rest)
        if option is None:
            raise UserError(f"{what} takes options of the form name=value, not '{rest}'")
        value = option["value"]
        yield option["name"], value[1:-1] if value[:1] in ('"', "'") else value
        rest = rest[option.end() :]


def _types(what: str, kind: type) -> dict[str, Any]:
    """The types of the fields, also where a user's file has them as text."""
    try:
        return get_type_hints(kind, include_extras=True)
    except NameError as error:
        raise UserError(f"{what}: the type of an option is unknown: {error}") from error


def _value(option: str, text: str, type_: Any) -> Any:
    if get_origin(type_) is tuple:
        element, *_ = get_args(type_)
        return tuple(_value(option, part.strip(), element) for part in text.split(",") if part)
    type_, allowed = _type_and_values(type_)
    if type_ not in _READABLE:
        raise UserError(f"{option} has no type that is read from text, such as int or tuple[int]")
    value: Any
    try:
        value = _BOOLEANS[text] if type_ is bool else type_(text)
    except (KeyError, ValueError) as error:
        raise UserError(f"{option} must be of type {type_.__name__}, not '{text}'") from error
    if type_ is int and allowed is None:
        allowed = _INT64
    if allowed is not None and value not in allowed:
        raise UserError(f"{option} must be {allowed}, not {value!r}")
    return value


def _type_and_values(type_: Any) -> tuple[Any, Range | OneOf | None]:
    """A field's type without annotations, and which of its values are allowed, if not all."""
    type_, *notes = get_args(type_) if get_origin(type_) is Annotated else (type_,)
    allowed = (note for note in notes if isinstance(note, Range | OneOf))
    return type_, next(allowed, None)


def _type_text(type_: object) -> str:
    if get_origin(type_) is Annotated:
        kind, allowed = get_args(type_)
        return f"{kind.__name__} {allowed}"
    return type_.__name__ if isinstance(type_, type) else "list"


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(map(_text, value))
    text = str(value)
    if not re.search(r"""[\s{},"']""", text):
        return text
    return f"'{text}'" if '"' in text else f'"{text}"'


def _is_missing(field: Field[Any], values: dict[str, Any]) -> bool:
    has_default = field.default is not MISSING or field.default_factory is not MISSING
    return not has_default and field.name not in values
