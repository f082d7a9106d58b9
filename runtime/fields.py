"""Checks JSON against dataclasses: a field's annotation says its type and values it may take."""

from __future__ import annotations

import dataclasses
import json
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints


@dataclass(frozen=True)
class Rule:
    """What the values of a field have in common beyond their type."""

    holds: Callable[[Any], object]
    text: str


def one_of(*names: str) -> Rule:
    """The rule of a text that is one of a few."""
    return Rule(names.__contains__, f"must be {' or '.join(names)}")


# Up to what an int64 holds: these numbers become sizes and indices in compiled code.
Count = Annotated[int, Rule(lambda n: 0 <= n < 2**63, "must be at least 0 and below 2**63")]
PositiveCount = Annotated[int, Rule(lambda n: 0 < n < 2**63, "must be above 0 and below 2**63")]
Seconds = Annotated[float, Rule(lambda s: 0 <= s < float("inf"), "must be finite and at least 0")]
Text = Annotated[str, Rule(len, "must not be empty")]


def converted(value: object, kind: Any, field: str = "") -> Any:
    """The JSON `value` as the annotated type `kind`; ValueError names `field` and the fault.

    A list becomes a tuple, an object a dataclass or a dictionary; nothing without a default may be
    missing, and nothing else be there.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        held = converted(value, arguments[0], field)
        for rule in arguments[1:]:
            if not rule.holds(held):
                raise ValueError(f"{field}: {rule.text}, not {brief(value)}")
        return held
    if dataclasses.is_dataclass(kind):
        return _convert_object(value, kind, field)
    if origin is tuple:
        items = _expect(value, list, "a list", field)
        return tuple(converted(x, arguments[0], f"{field}[{i}]") for i, x in enumerate(items))
    if origin is dict:
        entries = _expect(value, dict, "an object", field)
        return {
            converted(key, arguments[0], f"{field} key"): converted(
                x, arguments[1], f"{field}[{brief(key)}]"
            )
            for key, x in entries.items()
        }
    if origin in (Union, types.UnionType):
        return _convert_union(value, arguments, field)
    return _convert_scalar(value, kind, field)


def _convert_object(value: object, kind: Any, field: str) -> Any:
    entries = _expect(value, dict, "an object", field or "it")
    hints = get_type_hints(kind, include_extras=True)
    prefix = f"{field}." if field else ""
    for each in dataclasses.fields(kind):
        if each.name not in entries and not _has_default(each):
            raise ValueError(f"{prefix}{each.name}: is missing")
    for key in entries:
        if key not in hints:
            raise ValueError(f"{prefix}{brief(key)}: is not a field")
    return kind(
        **{key: converted(value, hints[key], prefix + key) for key, value in entries.items()}
    )


def _has_default(field: dataclasses.Field[Any]) -> bool:
    missing = dataclasses.MISSING
    return field.default is not missing or field.default_factory is not missing


def _convert_union(value: object, members: tuple[Any, ...], field: str) -> Any:
    """Picks the member of the union by the type of the JSON value, then applies its rules."""
    for member in members:
        base = get_args(member)[0] if get_origin(member) is Annotated else member
        if type(value) is (dict if dataclasses.is_dataclass(base) else base):
            return converted(value, member, field)
    names = " or ".join(_name_of(member) for member in members)
    raise ValueError(f"{field}: must be {names}, not {brief(value)}")


def _convert_scalar(value: object, kind: type, field: str) -> Any:
    if kind is float and type(value) is int:
        return float(value) if abs(value) < 2**63 else float("inf")
    # `type is`, for True is an instance of int.
    if type(value) is not kind:
        raise ValueError(f"{field}: must be {_name_of(kind)}, not {brief(value)}")
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise ValueError(f"{field}: is not valid Unicode text") from error
    return value


def _expect(value: object, kind: type, name: str, field: str) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"{field}: must be {name}, not {brief(value)}")
    return value


def _name_of(kind: Any) -> str:
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if dataclasses.is_dataclass(kind):
        return "an object"
    names = {str: "a string", int: "a whole number", float: "a number", bool: "true or false"}
    return names.get(kind, "null")


def brief(value: object) -> str:
    """`value` as JSON, cut where it is long."""
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
