"""What is measured: the interface through which llmc and its peers are run."""

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Rows = Sequence[Sequence[int]]


class MissingError(Exception):
    """A peer cannot take part; the text says why, in one line."""


@dataclass(frozen=True)
class Case:
    """One configuration: `batch` prompts of `prompt` tokens each, then `generated` greedy tokens.

    Decoding begins once at least `held` tokens of each sequence are cached, whatever the prompt.
    """

    prompt: int
    generated: int
    batch: int = 1
    held: int = 0

    @property
    def cached(self) -> int:
        """Tokens of each sequence in the cache when decoding begins."""
        return max(self.prompt, self.held)

    @property
    def capacity(self) -> int:
        """Tokens of each sequence in the cache at the end."""
        return self.cached + self.generated


@dataclass(frozen=True)
class Run:
    """The seconds that one case took, and the tokens that the first sequence went on with."""

    prefill_s: float
    decode_s: float
    tokens: list[int]


class Contender(ABC):
    """A model, loaded, that continues sequences greedily.

    `version` is that of the package which runs it. `weight_bytes` is what a decode step reads of
    the weights: all but an embedding table of which it looks up one row, None where it reads those
    of some experts alone. `weights` names the type most of them are stored in.
    """

    version: str
    weights: str
    weight_bytes: int | None

    @abstractmethod
    def clear(self, sequences: int, capacity: int) -> None:
        """Forgets all tokens and makes room for `sequences` of up to `capacity`."""

    @abstractmethod
    def prefill(self, rows: Rows, past: int) -> list[int]:
        """Runs a row of tokens `[B, T]` of each sequence after `past`; the likeliest next ones."""

    @abstractmethod
    def decode(self, tokens: list[int], past: int) -> list[int]:
        """Runs one token `[B]` of each sequence after `past`; the likeliest next ones."""

    def generate(self, tokens: list[int], past: int, count: int) -> list[list[int]]:
        """Runs `count` greedy steps from `tokens` after `past` on; the likeliest after each."""
        steps = [tokens]
        for column in range(past, past + count):
            steps.append(self.decode(steps[-1], column))
        return steps[1:]


def is_of_experts(name: str) -> bool:
    """Whether a weight, by its name in PyTorch or in GGUF, is that of experts to choose from."""
    return ".experts." in name or "_exps." in name


def all_bytes(sizes: Mapping[str, int]) -> int | None:
    """The bytes of all weights, by their names; None where a step reads not all of them."""
    return None if any(map(is_of_experts, sizes)) else sum(sizes.values())


def run(contender: Contender, case: Case, rows: Rows) -> Run:
    """Measures one case; `rows` holds the first `case.cached` tokens of each sequence."""
    contender.clear(case.batch, case.capacity)
    prompt, rest = [row[: case.prompt] for row in rows], [row[case.prompt :] for row in rows]
    begin = time.perf_counter()
    following = contender.prefill(prompt, 0)
    prefill_s = time.perf_counter() - begin
    if case.cached > case.prompt:
        following = contender.prefill(rest, case.prompt)
    begin = time.perf_counter()
    steps = contender.generate(following, case.cached, case.generated)
    decode_s = time.perf_counter() - begin
    tokens = [step[0] for step in (following, *steps[:-1])]
    return Run(prefill_s, decode_s, tokens)
