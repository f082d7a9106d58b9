"""Text to token ids and back, and chats to the text that the model was trained on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.parser
import tokenizers
from jinja2.sandbox import ImmutableSandboxedEnvironment

from .errors import UserError
from .manifest import TokenizerFacts

# A chat template is a program that came with the model; run on messages it was not made for, it
# fails in the ways of any Python expression.
_TEMPLATE_FAILURES = (
    jinja2.TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
)


class Tokenizer:
    """A model's `tokenizer.json` with its chat template; ids and text as in Hugging Face."""

    def __init__(self, source: Path | str, facts: TokenizerFacts) -> None:
        """`source` is the path of a `tokenizer.json`, or as a `str` its text.

        UserError if it cannot be read or is no tokenizer.
        """
        self.facts = facts
        self._tokenizer = _load(source)
        added = self._tokenizer.get_added_tokens_decoder()
        self._special_ids = frozenset(id_ for id_, token in added.items() if token.special)

    def encode(self, text: str, special: bool = True) -> list[int]:
        """Token ids of `text`; `special` adds what the model starts (and ends) a text with.

        UserError for text that is not valid Unicode, as arguments in another encoding become, and
        for text that needs what the vocabulary lacks.
        """
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise UserError(
                f"the text is not valid Unicode at character {error.start}: pass it as UTF-8"
            ) from error
        try:
            return self._tokenizer.encode(text, add_special_tokens=special).ids
        except Exception as error:  # `tokenizers` raises no other class
            raise UserError(f"tokenizer.json cannot encode the text: {_one_line(error)}") from error

    def decode(self, ids: Sequence[int], skip_special: bool = True) -> str:
        """Text of `ids`; ids outside the vocabulary and, by default, special tokens give none."""
        return self._tokenizer.decode(ids, skip_special_tokens=skip_special)

    def piece(self, token_id: int) -> str | None:
        """The vocabulary's entry for `token_id` as it stands there; None outside the vocabulary."""
        return self._tokenizer.id_to_token(token_id)

    def is_special(self, token_id: int) -> bool:
        """Whether `decode` skips `token_id` when it skips special tokens."""
        return token_id in self._special_ids

    def render_chat(
        self, messages: Iterable[Mapping[str, str]], add_generation_prompt: bool = True
    ) -> str:
        """The chat as the model reads it; each message has a `role` and a `content`.

        `add_generation_prompt` ends the text where the model's answer begins. UserError if the
        model has no chat template or the template does not take these messages.
        """
        chat = [dict(message) for message in messages]
        if not chat:
            raise UserError("the chat is empty: give at least one message")
        # Templates test whether a token is defined: one that the model lacks is left out, not None.
        named = {"bos_token": self.facts.bos_token, "eos_token": self.facts.eos_token}
        tokens = {name: token for name, token in named.items() if token is not None}
        template = self._template
        try:
            return template.render(
                messages=chat,
                tools=None,
                documents=None,
                add_generation_prompt=add_generation_prompt,
                **tokens,
            )
        except _TEMPLATE_FAILURES as error:
            raise UserError(
                f"the model's chat template does not take these messages: {_one_line(error)}"
            ) from error

    def encode_chat(
        self, messages: Iterable[Mapping[str, str]], add_generation_prompt: bool = True
    ) -> list[int]:
        """Token ids of `render_chat`, whose text already holds the special tokens."""
        return self.encode(self.render_chat(messages, add_generation_prompt), special=False)

    @cached_property
    def _template(self) -> jinja2.Template:
        if self.facts.chat_template is None:
            raise UserError("the model has no chat template: use --raw to give it plain text")
        try:
            return _template_environment().from_string(self.facts.chat_template)
        except _TEMPLATE_FAILURES as error:
            raise UserError(f"the model's chat template is broken: {_one_line(error)}") from error


def _load(source: Path | str) -> tokenizers.Tokenizer:
    name = str(source) if isinstance(source, Path) else "tokenizer.json"
    try:
        text = source.read_text(encoding="utf-8") if isinstance(source, Path) else source
    except OSError as error:
        raise UserError(f"cannot read {name}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{name} is not a tokenizer: it is not UTF-8 text") from error
    try:
        tokenizer = tokenizers.Tokenizer.from_str(text)
        # Hugging Face's `tokenizer(text)` neither truncates nor pads, whatever the file asks for.
        tokenizer.no_truncation()
        tokenizer.no_padding()
        tokenizer.encode("")  # which tells of special tokens that it adds and does not define
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # as panics are, that `tokenizers` raises beside Exception
        raise UserError(f"{name} is not a tokenizer: {_one_line(error)}") from error
    return tokenizer


def _template_environment() -> ImmutableSandboxedEnvironment:
    """Jinja as Hugging Face sets it up (`transformers.utils.chat_template_utils`)."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[jinja2.ext.loopcontrols, _GenerationBlock],
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment


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


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
