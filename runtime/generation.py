"""The decode loop: from token ids to text, one token at a time."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from numbers import Integral

from llmc.runtime.abi import UNDECIDED
from llmc.runtime.errors import UserError
from llmc.runtime.queued_steps import QueuedSteps
from llmc.runtime.runner import Output, Runner
from llmc.runtime.sampling import Sampler, SamplingOptions, require_finite, set_number
from llmc.runtime.text_stream import TextStream
from llmc.runtime.tokenizer import Tokenizer

# How many tokens the host draws after one that the module could not, though asked for it alone.
_PAUSE = 16


@dataclass(frozen=True)
class GenerationOptions:
    """When to stop and how to choose a token. `stop` is a string that ends the text, or several."""

    max_new_tokens: int = 256
    stop: tuple[str, ...] = ()
    sampling: SamplingOptions = field(default_factory=SamplingOptions)

    def __post_init__(self) -> None:
        set_number(self, "max_new_tokens", Integral)
        if self.max_new_tokens < 1:
            raise UserError(f"max_new_tokens must be at least 1, not {self.max_new_tokens}")
        stop = (self.stop,) if isinstance(self.stop, str) else self.stop
        if not isinstance(stop, list | tuple) or not all(isinstance(each, str) for each in stop):
            raise UserError(f"stop must be a string or several, not {self.stop!r}")
        object.__setattr__(self, "stop", tuple(stop))


@dataclass
class Generation:
    """What was generated. `finish_reason`: "stop" (the model or a stop string) or "length"."""

    prompt_token_ids: list[int]
    token_ids: list[int] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)
    finish_reason: str = "length"
    prefill_tokens: int = 0
    prefill_s: float = 0.0
    decode_s: float = 0.0

    def __str__(self) -> str:
        return self.text

    @property
    def text(self) -> str:
        """The text, put together from its `pieces`."""
        return "".join(self.pieces)

    @property
    def prefill_tokens_per_s(self) -> float:
        """Prompt tokens that were run, by the time to the first token."""
        return self.prefill_tokens / self.prefill_s if self.prefill_s else 0.0

    @property
    def decode_tokens_per_s(self) -> float:
        """Tokens after the first, by the time they took."""
        return max(len(self.token_ids) - 1, 0) / self.decode_s if self.decode_s else 0.0


class _Writer:
    """Samples one sequence's tokens and turns them into text."""

    def __init__(
        self, ids: list[int], tokenizer: Tokenizer, eos: Sequence[int], options: GenerationOptions
    ) -> None:
        self.result = Generation(list(ids))
        self.history = list(ids)
        self.done = False
        self._eos = frozenset(eos)
        self._limit = options.max_new_tokens
        self.sampling = options.sampling
        self.sampler = Sampler(options.sampling)
        self._stream = TextStream(tokenizer, stop=options.stop)

    def choose(self, output: Output, row: int) -> int:
        """The next token by `row` of `output`, on which it leaves what it need not see."""
        best = require_finite(output.best[row])
        if self.sampling.greedy:
            return best
        if self.sampling.candidates is not None:
            token = self.sampler.sample_top(*output.top(self.sampling.candidates, row))
            if token is not None:
                return token
        return self.sampler.sample(output.logits[row], self.history)

    def write(self, token: int, room: int) -> str:
        """Takes the next token; returns the text that is now certain.

        `room` is how many tokens the context still has for more.
        """
        result = self.result
        result.token_ids.append(require_finite(token))
        self.history.append(token)
        if token in self._eos:
            return self._end("stop", self._stream.finish())
        piece = self._stream.push(token)
        if self._stream.stopped:
            return self._end("stop", piece)
        if self.left(room) <= 0:
            rest = self._stream.finish()
            return self._end("stop" if self._stream.stopped else "length", piece + rest)
        result.pieces.append(piece)
        return piece

    def left(self, room: int) -> int:
        """How many tokens may come, where the context has room for so many."""
        return min(self._limit - len(self.result.token_ids), room)

    def _end(self, reason: str, piece: str) -> str:
        self.done = True
        self.result.finish_reason = reason
        self.result.pieces.append(piece)
        return piece


class _Stepper:
    """Decodes what several writers, of one kind of sampling, are to write next."""

    def __init__(self, engine: Runner, writers: Sequence[_Writer], starts: list[int]) -> None:
        self._engine = engine
        self._writers = writers
        self._starts = starts
        self._sampling = writers[0].sampling
        self._queued = QueuedSteps()
        self._by_host = 0  # how many steps are left to it before the module draws again

    def step(self, past: int, left: int) -> list[list[int]]:
        """Runs the last token of each in column `past`; the next ones, at most `left`, of each.

        A list for each step.
        """
        last = [writer.history[-1] for writer in self._writers]
        if self._sampling.greedy:
            return self._queued.run(partial(self._engine.greedy, last, past, self._starts), left)
        if self._by_host:
            self._by_host -= 1
        elif self._sampling.is_drawn and (steps := self._draw(last, past, left)):
            return steps
        output = self._engine.decode(last, past, self._starts)
        return [
            [
                last[row] if writer.done else writer.choose(output, row)
                for row, writer in enumerate(self._writers)
            ]
        ]

    def _draw(self, last: list[int], past: int, left: int) -> list[list[int]]:
        """The steps that the engine draws itself, up to one where it cannot decide."""
        options = self._sampling.top_k, self._sampling.drawing

        def draw(count: int) -> list[list[int]]:
            numbers = [writer.sampler.numbers(count) for writer in self._writers]
            random = list(map(list, zip(*numbers, strict=True)))
            return self._engine.sample(last, past, self._starts, *options, random)

        steps, made = self._queued.run_while(self._is_decided, draw, left)
        for writer in self._writers:
            writer.sampler.take(len(steps))
        if len(steps) < made:
            self._by_host = 1 if made > 1 else _PAUSE
        return steps

    def _is_decided(self, tokens: list[int]) -> bool:
        live = (
            token for token, writer in zip(tokens, self._writers, strict=True) if not writer.done
        )
        return UNDECIDED not in live


def generate(
    engine: Runner,
    claim: int,
    tokenizer: Tokenizer,
    eos: Sequence[int],
    ids: list[int],
    past: int,
    context: int,
    options: GenerationOptions,
) -> Iterator[tuple[str, Generation]]:
    """Continues one sequence: yields each new piece of text with the generation so far.

    `ids` is the whole prompt, of which the engine's cache, since `claim`, holds the first `past`
    tokens already; at least one is left to run. Closing the iterator early is allowed. UserError
    for a prompt that is empty or longer than `context`, and once the claim is lost to another.
    """
    _check_prompt(ids, context)
    writer = _Writer(ids, tokenizer, eos, options)
    result = writer.result
    length = len(ids)
    if length >= context:
        yield "", result
        return
    result.prefill_tokens = length - past
    stepper = _Stepper(engine, [writer], [0])
    with engine.turn(claim):
        begin = time.perf_counter()
        output = engine.prefill(ids[past:], past)
        first = time.perf_counter()
        result.prefill_s = first - begin
        steps = [[writer.choose(output, 0)]]
    since = first
    while True:
        for (token,) in steps:
            length += 1
            piece = writer.write(token, context - length)
            result.decode_s += time.perf_counter() - since
            yield piece, result
            since = time.perf_counter()  # the reader took the time between
            if writer.done:
                return
        with engine.turn(claim):
            steps = stepper.step(length - 1, writer.left(context - length))


def generate_batch(
    engine: Runner,
    tokenizer: Tokenizer,
    eos: Sequence[int],
    prompts: list[list[int]],
    context: int,
    options: GenerationOptions,
) -> list[Generation]:
    """Continues several sequences together, one decode step for all of them.

    Their columns are aligned at the end: shorter prompts begin in a later column, after padding
    that they do not see.
    """
    for ids in prompts:
        _check_prompt(ids, context)
    writers = [_Writer(ids, tokenizer, eos, options) for ids in prompts]
    column = max(map(len, prompts))
    starts = [column - len(ids) for ids in prompts]
    engine.reset(len(prompts), min(column + options.max_new_tokens, max(starts) + context))
    begin = time.perf_counter()
    # The padding is run too, so that all that the cache holds are numbers.
    padded = [[ids[0]] * start + ids for start, ids in zip(starts, prompts, strict=True)]
    output = engine.prefill_batch(padded, starts)
    prefill_s = time.perf_counter() - begin
    for row, (writer, ids) in enumerate(zip(writers, prompts, strict=True)):
        writer.result.prefill_tokens = len(ids)
        writer.result.prefill_s = prefill_s
        if len(ids) < context:
            writer.write(writer.choose(output, row), context - len(ids) - 1)
        else:
            writer.done = True
    _decode_batch(_Stepper(engine, writers, starts), writers, starts, column, context)
    return [writer.result for writer in writers]


def _decode_batch(
    stepper: _Stepper, writers: Sequence[_Writer], starts: list[int], column: int, context: int
) -> None:
    """Decodes from `column` on until all `writers` are done; they begin in the columns `starts`."""
    begin = time.perf_counter()
    live = list(range(len(writers)))
    while live := _still_live(live, writers, starts, column):
        left = [writers[row].left(context - 1 - (column - starts[row])) for row in live]
        for step in stepper.step(column, min(left)):
            column += 1
            for row in (row for row in live if not writers[row].done):
                writers[row].write(step[row], context - 1 - (column - starts[row]))
                writers[row].result.decode_s = time.perf_counter() - begin


def _still_live(
    live: list[int], writers: Sequence[_Writer], starts: list[int], column: int
) -> list[int]:
    """Those rows of `live` that go on; the others start anew in `column`.

    They are run with the rest, unread, and some models look positions up in a table that is no
    longer than the context.
    """
    for row in live:
        if writers[row].done:
            starts[row] = column
    return [row for row in live if not writers[row].done]


def _check_prompt(ids: list[int], context: int) -> None:
    if not ids:
        raise UserError("the prompt is empty: it has no tokens")
    if len(ids) > context:
        raise UserError(
            f"the prompt has {len(ids)} tokens, but the context of this bundle is {context}"
        )
