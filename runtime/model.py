"""A bundle, opened: the object that applications hold."""

import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import fields
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np

from llmc.runtime.errors import UserError
from llmc.runtime.generation import Generation, GenerationOptions, generate, generate_batch
from llmc.runtime.heap import return_freed_memory
from llmc.runtime.manifest import TOKENIZER
from llmc.runtime.opening import find_module, open_engine
from llmc.runtime.ranks.agreement import agreement
from llmc.runtime.ranks.communicator import Communicator
from llmc.runtime.ranks.waiting import TIMEOUT_S
from llmc.runtime.room import require_tokens
from llmc.runtime.sampling import SamplingOptions
from llmc.runtime.tokenizer import Tokenizer

Message = dict[str, str]

# Of GenerationOptions.
_GENERAL = ("max_new_tokens", "stop")


class Model:
    """A compiled model, ready to generate."""

    def __init__(
        self,
        folder: Path,
        threads: int | None = None,
        device: str | None = None,
        communicator: Communicator | None = None,
    ) -> None:
        """Opens the bundle in `folder`; `threads` defaults to the CPUs this process may use.

        IREE starts a CPU's workers once: the `threads` of a process's first model hold for all.
        `device` is where it runs, as `place_module` takes it. A bundle of several ranks is opened
        on rank 0 of the `communicator`, while the others follow. Raises UserError for a damaged
        bundle or one that was compiled for another machine.
        """
        begin = time.perf_counter()
        with agreement(communicator, folder) if communicator else nullcontext():
            self.manifest, self.placement = find_module(folder, device, communicator)
            if threads is not None and (not isinstance(threads, Integral) or threads < 1):
                raise UserError(f"threads must be a whole number of at least 1, not {threads!r}")
            self.tokenizer = Tokenizer(folder / TOKENIZER, self.manifest.tokenizer)
            return_freed_memory()  # Parsing takes several times what it leaves.
            self.engine = open_engine(self.manifest, self.placement, folder, threads, communicator)
        self.folder = folder
        self.communicator = communicator
        self.load_s = time.perf_counter() - begin

    def encode(self, prompt: str, raw: bool = False) -> list[int]:
        """Token ids of `prompt`: as a chat's first message, or as it is.

        As it is with `raw`, and for a model that has no chat template.
        """
        if raw or self.manifest.tokenizer.chat_template is None:
            return self.tokenizer.encode(prompt)
        return self.tokenizer.encode_chat([{"role": "user", "content": prompt}])

    def generate(self, prompt: str, raw: bool = False, **options: Any) -> Generation:
        """The answer to `prompt`. `options` are those of `stream`.

        Threads may call it, `generate_batch` and `logits` at once: each waits for its turn.
        """
        with self.engine.lock:
            *_, (_, result) = self.stream(prompt, raw, **options)
        return result

    def stream(
        self, prompt: str, raw: bool = False, **options: Any
    ) -> Iterator[tuple[str, Generation]]:
        """Yields the answer to `prompt` piece by piece, each with the generation so far.

        `options` are `max_new_tokens` and `stop` of GenerationOptions, and the fields of
        SamplingOptions. UserError for others, and for the next piece once the model is asked for
        something else: there is one KV cache.
        """
        return self.stream_tokens(self.encode(prompt, raw), _options(options))

    def stream_tokens(
        self, ids: list[int], options: GenerationOptions
    ) -> Iterator[tuple[str, Generation]]:
        """Like `stream`, from token ids."""
        self._check_tokens(ids)
        context = self.manifest.context
        claim = self.engine.reset(1, min(context, len(ids) + options.max_new_tokens))
        return generate(self.engine, claim, self.tokenizer, self._eos, ids, 0, context, options)

    def generate_batch(
        self, prompts: Sequence[str], raw: bool = False, **options: Any
    ) -> list[Generation]:
        """The answers to several prompts, decoded together."""
        if isinstance(prompts, str):
            raise UserError("generate_batch takes a list of prompts: generate takes one")
        chosen = _options(options)
        if not prompts:
            return []
        ids = [self.encode(prompt, raw) for prompt in prompts]
        for tokens in ids:
            self._check_tokens(tokens)
        context = self.manifest.context
        with self.engine.lock:
            return generate_batch(self.engine, self.tokenizer, self._eos, ids, context, chosen)

    def chat(self) -> "Chat":
        """A new conversation. One at a time: it uses the model's KV cache."""
        return Chat(self)

    def logits(self, ids: list[int], every: bool = False) -> np.ndarray:
        """Logits `[V]` float32 after the last of `ids`, or `[T, V]` after each of them."""
        self._check_tokens(ids)
        if not ids or len(ids) > self.manifest.context:
            raise UserError(
                f"between 1 and {self.manifest.context} tokens fit the context, not {len(ids)}"
            )
        with self.engine.lock:
            self.engine.reset(1, len(ids))
            if not every:
                return self.engine.prefill(ids, 0).logits[0]
            return np.concatenate(
                [self.engine.decode([token], past, [0]).logits for past, token in enumerate(ids)]
            )

    @property
    def _eos(self) -> tuple[int, ...]:
        return self.manifest.tokenizer.eos_token_ids

    def _check_tokens(self, ids: list[int]) -> None:
        require_tokens(ids, self.manifest.model.vocab_size)


class Chat:
    """A conversation that keeps its tokens in the KV cache from turn to turn."""

    def __init__(self, model: Model) -> None:
        """Starts empty."""
        self._model = model
        self._held: list[int] = []
        self._claim = 0
        self.reset()

    @property
    def tokens(self) -> int:
        """How many tokens of the context the conversation takes."""
        return len(self._held)

    def reset(self) -> None:
        """Forgets the conversation."""
        self.messages: list[Message] = []
        self._take_cache()

    def send(
        self, content: str, options: GenerationOptions
    ) -> Generator[tuple[str, Generation], None, None]:
        """Adds a message and yields the answer piece by piece.

        Closing the iterator early keeps what was said until then as the answer; a message that got
        no answer is forgotten. UserError if the conversation no longer fits the context.
        """
        model = self._model
        asked: list[Message] = [*self.messages, {"role": "user", "content": content}]
        ids = model.tokenizer.encode_chat(asked)
        model._check_tokens(ids)
        with model.engine.lock:
            if not model.engine.holds(self._claim):
                self._take_cache()
            claim = self._claim = model.engine.claim()
        past = self._common_prefix(ids)
        del self._held[past:]  # the columns after them are written anew
        result = Generation([])
        steps = generate(
            model.engine,
            claim,
            model.tokenizer,
            model._eos,
            ids,
            past,
            model.manifest.context,
            options,
        )
        try:
            for piece, result in steps:
                yield piece, result
        finally:
            # Unless the conversation was reset, or went on with another message.
            if result.token_ids and claim == self._claim:
                # The last token was chosen, but not run.
                self._held = ids + result.token_ids[:-1]
                self.messages = [*asked, {"role": "assistant", "content": result.text}]

    def _take_cache(self) -> None:
        self._held = []
        self._claim = self._model.engine.reset(1, self._model.manifest.context)

    def _common_prefix(self, ids: list[int]) -> int:
        """How many of `ids` the cache holds already; at least one is left to run."""
        past = 0
        for held, wanted in zip(self._held, ids[:-1], strict=False):
            if held != wanted:
                break
            past += 1
        return past


def load(
    folder: str | Path,
    threads: int | None = None,
    device: str | None = None,
    *,
    local: bool = False,
    timeout_s: float = TIMEOUT_S,
) -> Model:
    """Opens the bundle in `folder`; see Model.

    With `local` its ranks are processes that end with this one, each with `threads`; see
    `start_local_ranks`.
    """
    if not local:
        return Model(Path(folder), threads, device)
    # Here, for one device needs none of it.
    from llmc.runtime.ranks.local_ranks import start_local_ranks

    communicator = start_local_ranks(Path(folder), threads, device, timeout_s)
    return Model(Path(folder), threads, device, communicator)


def _options(options: dict[str, Any]) -> GenerationOptions:
    """Sorts flat options into those of generation and those of sampling; UserError for others."""
    known = [*_GENERAL, *(field.name for field in fields(SamplingOptions))]
    for name in options:
        if name not in known:
            raise UserError(f"there is no option {name}: there are {', '.join(known)}")
    general = {name: options.pop(name) for name in _GENERAL if name in options}
    return GenerationOptions(**general, sampling=SamplingOptions(**options))
