"""A chat template: the program, written in Jinja, that makes a text of messages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import jinja2
import jinja2.exceptions
import jinja2.ext
import jinja2.nodes
import jinja2.parser
import jinja2.utils
from jinja2.sandbox import ImmutableSandboxedEnvironment

from llmc.runtime.errors import UserError, one_line

# Run on messages it was not made for, it fails in the ways of any Python expression.
_FAILURES = (
    jinja2.TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
)


class ChatTemplate:
    """The program that came with a model."""

    def __init__(self, text: str) -> None:
        """UserError where it is no such program."""
        try:
            self._template = _environment().from_string(text)
        except _FAILURES as error:
            raise UserError(f"the model's chat template is broken: {one_line(error)}") from error

    def render(
        self,
        messages: Sequence[Mapping[str, str]],
        tokens: Mapping[str, str | None],
        add_generation_prompt: bool,
    ) -> str:
        """The text of `messages`, with special `tokens` by their names.

        UserError where the template does not take these messages.
        """
        # Templates test whether a token is defined: one that the model lacks is left out, not None.
        defined = {name: token for name, token in tokens.items() if token is not None}
        try:
            return self._template.render(
                messages=messages,
                tools=None,
                documents=None,
                add_generation_prompt=add_generation_prompt,
                **defined,
            )
        except _FAILURES as error:
            raise UserError(
                f"the model's chat template does not take these messages: {one_line(error)}"
            ) from error


def _environment() -> ImmutableSandboxedEnvironment:
    """Jinja as Hugging Face sets it up (`transformers.utils.chat_template_utils`), but that `dict`
    and `namespace` take no names that Python has for its own.
    """
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[jinja2.ext.loopcontrols, _GenerationBlock],
    )
    environment.filters["tojson"] = _to_json
    environment.globals["dict"] = _dictionary
    environment.globals["namespace"] = _Namespace
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment


class _Namespace(jinja2.utils.Namespace):
    """Variables that a loop can set, but for names that Python has for its own."""

    def __init__(self, /, *values: Any, **named: Any) -> None:
        given = dict(*values, **named)
        for name in given:
            _check_variable(name)
        super().__init__(given)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_variable(name)
        super().__setitem__(name, value)


def _check_variable(name: object) -> None:
    if str(name).startswith("_"):
        raise jinja2.exceptions.SecurityError(f"a namespace takes no {name!r}")


def _dictionary(*values: Any, **named: Any) -> dict[Any, Any]:
    """What `dict` makes in a template, whose methods would change what the sandbox protects."""
    return dict(*values, **named)


class _GenerationBlock(jinja2.ext.Extension):
    """`{% generation %}` marks the assistant's words for training; here it is only its body."""

    tags = {"generation"}  # noqa: RUF012 (Jinja's own way to declare them)

    def parse(self, parser: jinja2.parser.Parser) -> jinja2.nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.Scope(body, lineno=line)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Unlike Jinja's own filter, does not escape for HTML."""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(message)


def _strftime_now(format_: str) -> str:
    return datetime.now().strftime(format_)
