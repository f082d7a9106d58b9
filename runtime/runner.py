"""What generation asks of an engine, or of several that share the sequences of a batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from itertools import chain
from threading import RLock

import numpy as np

from llmc.runtime.errors import UserError
from llmc.runtime.room import Room

# Entered around each call that the runners of all ranks make, given its name and arguments.
Together = Callable[..., AbstractContextManager[None]]

# Tokens of several sequences, row after row, and their logits.
Top = tuple[list[int], list[float]]


def alone(name: str, *arguments: object) -> AbstractContextManager[None]:
    """The call of a runner that is the only one."""
    return nullcontext()


class Output:
    """What a call computed for B sequences.

    `best` is the most likely token of each, -1 where its logit is NaN or infinite. The logits stay
    where they are until they are asked for.
    """

    def __init__(
        self,
        best: list[int],
        read_logits: Callable[[], np.ndarray],
        find_top: Callable[[int], Top] | None = None,
        together: Together = alone,
    ) -> None:
        """`find_top` finds, of each row, as many of the largest logits as it is told."""
        self.best = best
        self._read_logits = read_logits
        self._find_top = find_top
        self._together = together
        self._top: dict[int, Top] = {}

    @cached_property
    def logits(self) -> np.ndarray:
        """Logits `[B, V]`, float32, of the next token."""
        return self._read_logits()

    def top(self, count: int, row: int) -> Top:
        """The tokens of sequence `row` with the `count` largest logits, descending, and these.

        All where the vocabulary has no more. Undefined where `best` is -1.
        """
        if count not in self._top:  # the sequences of a batch all ask
            with self._together("find_top", count):
                self._top[count] = self.find_top(count)
        tokens, values = self._top[count]
        each = len(tokens) // len(self.best)
        of_row = slice(row * each, (row + 1) * each)
        return tokens[of_row], values[of_row]

    def find_top(self, count: int) -> Top:
        """What `top` gives, of all sequences; other ranks are not told."""
        return self._find_top(count) if self._find_top else _largest(self.logits, count)


def joined(outputs: Sequence[Output], together: Together = alone) -> Output:
    """The output for the sequences of all `outputs`, in their order."""
    return Output(
        [token for output in outputs for token in output.best],
        lambda: np.concatenate([output.logits for output in outputs]),
        lambda count: rows(output.find_top(count) for output in outputs),
        together,
    )


def rows(tops: Iterable[Top]) -> Top:
    """Those of several sequences, row after row."""
    tokens, values = zip(*tops, strict=True)
    return list(chain.from_iterable(tokens)), list(chain.from_iterable(values))


class Runner(ABC):
    """Runs tokens of the sequences that a KV cache holds, for one caller at a time.

    What the cache has no `room` for is a UserError, before any rank is told of it. Threads that
    share it hold its `lock` while they call it and read what it computed.
    """

    def __init__(self, vocabulary: int) -> None:
        """Without room for any token, of which there are `vocabulary`."""
        self._claims = 0
        self.lock = RLock()
        self.room = Room(vocabulary)

    def claim(self) -> int:
        """Takes the cache as it is from whoever used it. Returns the claim, for `holds`."""
        with self.lock:
            self._claims += 1
            return self._claims

    def holds(self, claim: int) -> bool:
        """Whether nobody took the cache since `claim` was made."""
        return claim == self._claims

    @contextmanager
    def turn(self, claim: int) -> Iterator[None]:
        """Holds the lock. Raises UserError if somebody took the cache since `claim` was made."""
        with self.lock:
            if not self.holds(claim):
                raise UserError(
                    "another generation took this model's KV cache: load the model twice"
                )
            yield

    @abstractmethod
    def reset(self, sequences: int, capacity: int) -> int:
        """Forgets all tokens and makes room for `sequences` of up to `capacity` columns.

        Returns what `claim` does. UserError where the device has not enough memory.
        """

    @abstractmethod
    def prefill(self, tokens: list[int], past: int, sequence: int = 0, start: int = 0) -> Output:
        """Runs `tokens` of one sequence in columns `past` on; what follows the last one."""

    @abstractmethod
    def prefill_batch(self, prompts: list[list[int]], starts: list[int], past: int = 0) -> Output:
        """Runs all tokens of each sequence in columns `past` on; what follows the last of each."""

    @abstractmethod
    def decode(self, tokens: list[int], past: int, starts: list[int]) -> Output:
        """Runs one token of each sequence in column `past`; what follows each."""

    @abstractmethod
    def greedy(
        self, tokens: list[int], past: int, starts: list[int], count: int
    ) -> list[list[int]]:
        """Runs `count` tokens of each sequence in columns `past` on, each the best after the last.

        Returns the best tokens after each, as `decode` does, but fewer where the module has no
        function for several, or the device takes one at a time.
        """

    def sample(
        self,
        tokens: list[int],
        past: int,
        starts: list[int],
        top_k: int,
        options: list[float],
        random: list[list[float]],
    ) -> list[list[int]]:
        """Like `greedy`, with tokens drawn from the `top_k` most likely ones, or with 0 from all.

        `random` are numbers from 0 to 1 for each step and sequence, `options` a temperature above
        0, top_p and min_p. A token is UNDECIDED where the host must draw it; those after it are of
        no use. Returns no steps where the module has no function for them.
        """
        return []


def _largest(logits: np.ndarray, count: int) -> Top:
    """What `top_k` of the module's interface returns, row after row."""
    count = min(count, logits.shape[1])
    tokens = np.empty((len(logits), count), np.int64)
    for row, found in zip(logits, tokens, strict=True):
        candidates = np.flatnonzero(row >= np.partition(row, -count)[-count])
        found[:] = candidates[np.argsort(-row[candidates], kind="stable")[:count]]
    return tokens.ravel().tolist(), np.take_along_axis(logits, tokens, 1).ravel().tolist()
