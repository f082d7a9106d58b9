"""Text to token ids and back, and chats to the text that the model was trained on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import tokenizers

from llmc.runtime.errors import UserError, one_line
from llmc.runtime.manifest import TokenizerFacts

if TYPE_CHECKING:
    from llmc.runtime.chat_template import ChatTemplate


class Tokenizer:
    """A model's `tokenizer.json` with its chat template; ids and text as in Hugging Face."""

    def __init__(self, source: Path | str, facts: TokenizerFacts) -> None:
        """`source` is the path of a `tokenizer.json`, or as a `str` its text.

        UserError if it cannot be read or is no tokenizer.
        """
        self.facts = facts
        self._tokenizer = load_tokenizer(source)
        added = self._tokenizer.get_added_tokens_decoder()
        self._special_ids = frozenset(id_ for id_, token in added.items() if token.special)

    def encode(self, text: str, special: bool = True) -> list[int]:
        """Token ids of `text`; `special` adds what the model starts (and ends) a text with.

        UserError for text that is not valid Unicode, as arguments in another encoding become, and
        for text that needs what the vocabulary lacks.
        """
        _require_unicode(text, "the text")
        with blaming("tokenizer.json cannot encode the text"):
            return self._tokenizer.encode(text, add_special_tokens=special).ids

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
        model has no chat template, the template does not take these messages, or one is not valid
        Unicode.
        """
        chat = [dict(message) for message in messages]
        if not chat:
            raise UserError("the chat is empty: give at least one message")
        values = (value for message in chat for value in message.values())
        for text in (value for value in values if isinstance(value, str)):
            _require_unicode(text, "the message")
        named = {"bos_token": self.facts.bos_token, "eos_token": self.facts.eos_token}
        return self._template.render(chat, named, add_generation_prompt)

    def encode_chat(
        self, messages: Iterable[Mapping[str, str]], add_generation_prompt: bool = True
    ) -> list[int]:
        """Token ids of `render_chat`, whose text already holds the special tokens."""
        return self.encode(self.render_chat(messages, add_generation_prompt), special=False)

    @cached_property
    def _template(self) -> ChatTemplate:
        if self.facts.chat_template is None:
            raise UserError("the model has no chat template: use --raw to give it plain text")
        # Here, for Jinja takes memory that plain text has no need of.
        from llmc.runtime.chat_template import ChatTemplate

        return ChatTemplate(self.facts.chat_template)


def _require_unicode(text: str, what: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UserError(
            f"{what} is not valid Unicode at character {error.start}: pass it as UTF-8"
        ) from error


def load_tokenizer(source: Path | str) -> tokenizers.Tokenizer:
    """What is in the `tokenizer.json` at the path `source`, or in the text that it is.

    UserError if it cannot be read or is no tokenizer.
    """
    name = str(source) if isinstance(source, Path) else "tokenizer.json"
    try:
        text = source.read_text(encoding="utf-8") if isinstance(source, Path) else source
    except OSError as error:
        raise UserError(f"cannot read {name}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{name} is not a tokenizer: it is not UTF-8 text") from error
    with blaming(f"{name} is not a tokenizer"):
        tokenizer = tokenizers.Tokenizer.from_str(text)
        # Hugging Face's `tokenizer(text)` neither truncates nor pads, whatever the file asks for.
        tokenizer.no_truncation()
        tokenizer.no_padding()
        tokenizer.encode("")  # which tells of special tokens that it adds and does not define
    return tokenizer


@contextmanager
def blaming(fault: str) -> Iterator[None]:
    """Makes a UserError that begins with `fault` of all that `tokenizers` raises."""
    try:
        yield
    except (UserError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # it raises panics beside each Exception, which they are not
        raise UserError(f"{fault}: {one_line(error)}") from error
