"""Token ids to text, one at a time: whole characters, at once, and never a stop string."""

from __future__ import annotations

from collections.abc import Iterable

from llmc.runtime.errors import UserError
from llmc.runtime.tokenizer import Tokenizer

# What decoding gives for bytes that are no character, or not one yet.
_REPLACEMENT = "\ufffd"

# Many times the four tokens that one UTF-8 character can span at most.
_LONG_WINDOW = 32


class TextStream:
    """Yields the text of a growing sequence of ids as soon as no later id can change it.

    The concatenation of all that `push` and `finish` return is `tokenizer.decode` of all ids, cut
    before the first stop string. Only a window of the last ids is decoded, so that an id costs the
    same however long the text is: the ids since the last place where all text was certain, behind
    a few older ones (the context), because decoders treat the first id unlike the others. (The
    idea is that of the prefix and read offsets of Hugging Face's text-generation-inference.)
    """

    def __init__(
        self, tokenizer: Tokenizer, stop: Iterable[str] = (), skip_special: bool = True
    ) -> None:
        """`stop` are the strings that end the text; UserError if one is empty."""
        self._tokenizer = tokenizer
        self._skip_special = skip_special
        self._stop = tuple(stop)
        if "" in self._stop:
            raise UserError("a stop string must not be empty")
        self._window: list[int] = []
        self._context = 0  # ids at the start of the window that are there as context
        self._sent = 0  # characters of the window's text that were certain already
        self._held = ""  # certain text that may be the beginning of a stop string
        self.stopped = False

    def push(self, token_id: int) -> str:
        """Takes the next id, returns the text that it makes certain; nothing once `stopped`."""
        piece = self._tokenizer.piece(token_id)
        skipped = self._skip_special and self._tokenizer.is_special(token_id)
        if piece is None or skipped or self.stopped:
            return ""
        self._window.append(token_id)
        # Byte-fallback decoders turn a run of bytes into text as a whole: it is certain, and worth
        # decoding, only when the run is over.
        if _is_byte(piece):
            return ""
        text = self._decode(self._window)
        # A replacement character at the end may be a character whose last bytes are to come.
        certain = len(text) - text.endswith(_REPLACEMENT)
        new = text[self._sent : certain]
        self._sent = certain
        if new and certain == len(text):
            self._forget_context()
        elif len(self._window) > _LONG_WINDOW:
            self._split_window(text)
        return self._release(new)

    def finish(self) -> str:
        """Returns the rest of the text: there are no more ids."""
        rest = self._release(self._decode(self._window)[self._sent :]) + self._held
        self._window, self._context, self._sent, self._held = [], 0, 0, ""
        return rest

    def _decode(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids, self._skip_special)

    def _forget_context(self) -> None:
        """At a place where all text is certain: the ids since the last one become the context."""
        del self._window[: self._context]
        self._context = len(self._window)
        self._sent = len(self._decode(self._window))

    def _split_window(self, text: str) -> None:
        """Shortens a window that nothing but invalid bytes keeps open.

        Of any four borders between ids one lies between characters. There the two sides decode to
        the whole, and anywhere else they do not: each side of a split character would count as one.
        """
        for border in range(len(self._window) - 1, len(self._window) - 5, -1):
            head, tail = self._decode(self._window[:border]), self._decode(self._window[border:])
            if tail and head + tail == text:
                del self._window[:border]
                self._context = 0
                self._sent -= len(head)
                return

    def _release(self, new: str) -> str:
        """The part of the held and new text that no stop string can take back.

        The stop string that ends first wins, and of those that end there the longest, so that it
        does not matter how the text was cut into tokens.
        """
        if self.stopped:
            return ""
        if not self._stop:
            return new
        text = self._held + new
        found = [(at + len(stop), at) for stop in self._stop if (at := text.find(stop)) >= 0]
        if found:
            self.stopped = True
            self._held = ""
            return text[: min(found)[1]]
        held = max((_overlap(text, stop) for stop in self._stop), default=0)
        self._held = text[len(text) - held :]
        return text[: len(text) - held]


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` that `stop` begins with but is longer than."""
    lengths = range(min(len(text), len(stop) - 1), 0, -1)
    return next((n for n in lengths if text.endswith(stop[:n])), 0)


def _is_byte(piece: str) -> bool:
    """Whether `piece` is a byte in a byte-fallback vocabulary, such as `<0x0A>`."""
    return len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">")
