"""Logits to the next token: greedy, or drawn from the filtered distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .errors import UserError

# So many of the largest logits are found in less time than it takes to read all of them.
_FEW = 256

Logits = npt.NDArray[np.float32]  # [vocabulary], or those of some tokens
Tokens = npt.NDArray[np.int64]


@dataclass(frozen=True)
class SamplingOptions:
    """How to pick tokens; the defaults are greedy. UserError for a value out of range.

    `temperature` 0 is greedy; `top_k` 0, `top_p` 1, `min_p` 0 and `repetition_penalty` 1 are off.
    Without a `seed` every sampler draws differently.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None

    def __post_init__(self) -> None:
        _require(0 <= self.temperature < math.inf, "temperature", self.temperature, "0 or above")
        _require(self.top_k >= 0, "top_k", self.top_k, "0 or above")
        _require(0 <= self.top_p <= 1, "top_p", self.top_p, "between 0 and 1")
        _require(0 <= self.min_p <= 1, "min_p", self.min_p, "between 0 and 1")
        penalty = self.repetition_penalty
        # So that logits stay finite.
        _require(1e-3 <= penalty <= 1e3, "repetition_penalty", penalty, "between 0.001 and 1000")
        _require(self.seed is None or self.seed >= 0, "seed", self.seed, "0 or above")

    @property
    def greedy(self) -> bool:
        """Whether the token with the largest logit is picked."""
        return self.temperature == 0 and self.repetition_penalty == 1

    @property
    def candidates(self) -> int | None:
        """How many of the largest logits show what to draw from; None where it takes all of them.

        They are one more than `top_k`, which may tie with the last of those.
        """
        few = 0 < self.top_k <= _FEW and self.repetition_penalty == 1
        return self.top_k + 1 if few else None


def _require(holds: bool, name: str, value: object, rule: str) -> None:
    if not holds:
        raise UserError(f"{name} must be {rule}, not {value}")


class Sampler:
    """Picks the tokens of one text, which only grows.

    Order and meaning of the options are those of transformers' logits processors: repetition
    penalty, temperature, top-k, top-p, min-p.
    """

    def __init__(self, options: SamplingOptions) -> None:
        self._options = options
        self._random = np.random.default_rng(options.seed)
        self._seen = np.zeros(0, dtype=np.bool_)  # by token id
        self._read = 0  # ids of the history that are marked in _seen

    def sample(self, logits: Logits, history: Sequence[int]) -> int:
        """The next token id, given the `logits` for it and the `history`, all ids before it.

        The history matters to the repetition penalty alone, and only what it gained since the last
        call is read. UserError if the largest of the logits is NaN or infinite.
        """
        options = self._options
        if options.repetition_penalty != 1:
            self._read_history(history, len(logits))
            logits = penalise(logits, self._seen, options.repetition_penalty)
        if options.temperature == 0:
            return _best(logits)
        return self._draw(*distribution(logits, options))

    def sample_top(self, tokens: Tokens, logits: Logits) -> int | None:
        """What `sample` gives, from the `candidates` largest logits, descending, and their tokens.

        There are fewer where there are no more. None where all must be seen, for others may tie
        with the last.
        """
        k = self._options.top_k
        kept = np.count_nonzero(logits >= logits[min(k, len(logits)) - 1])
        if kept == len(logits) > k:
            return None
        order = np.argsort(tokens[:kept])
        return self._draw(*_weigh(tokens[order], logits[order], self._options))

    def _draw(self, ids: Tokens, probabilities: npt.NDArray[np.float64]) -> int:
        drawn = np.searchsorted(np.cumsum(probabilities), self._random.random(), side="right")
        # The sum may fall short of 1 by rounding, and the draw beyond it.
        return int(ids[min(int(drawn), len(ids) - 1)])

    def _read_history(self, history: Sequence[int], vocab_size: int) -> None:
        if len(self._seen) != vocab_size or len(history) < self._read:
            self._seen = np.zeros(vocab_size, dtype=np.bool_)
            self._read = 0
        new = np.asarray(history[self._read :], dtype=np.int64)
        # A tokenizer may know ids that the model cannot produce.
        self._seen[new[new < vocab_size]] = True
        self._read = len(history)


def penalise(logits: Logits, seen: npt.NDArray[np.bool_], penalty: float) -> Logits:
    """Makes `seen` tokens less likely for a `penalty` above 1; all arrays are [vocabulary].

    Keskar et al., CTRL (2019), https://arxiv.org/abs/1909.05858.
    """
    penalised = logits.copy()
    scores = logits[seen]
    penalised[seen] = np.where(scores < 0, scores * penalty, scores / penalty)
    return penalised


def distribution(
    logits: Logits, options: SamplingOptions
) -> tuple[Tokens, npt.NDArray[np.float64]]:
    """What to draw from: token ids, in no particular order, and their probabilities.

    Applies all options but the repetition penalty; the temperature must be above 0. UserError if
    the largest of the logits is NaN or infinite.
    """
    _best(logits)  # refuses what is not finite
    if options.top_k:
        ids = _top_k(logits, options.top_k)
        return _weigh(ids, logits[ids], options)
    return _weigh(np.arange(len(logits)), logits, options)


def _weigh(
    ids: Tokens, logits: Logits, options: SamplingOptions
) -> tuple[Tokens, npt.NDArray[np.float64]]:
    """What to draw from, given the tokens that top-k leaves and their logits."""
    below = logits.astype(np.float64) - logits.max()
    with np.errstate(over="ignore"):  # near temperature 0 all but the peak are infinitely far
        weights = np.exp(below / options.temperature)
    probabilities = weights / weights.sum()
    if options.top_p < 1:
        kept = _top_p(probabilities, options.top_p)
        ids, probabilities = ids[kept], probabilities[kept]
    if options.min_p > 0:
        likely = probabilities >= options.min_p * probabilities.max()
        ids, probabilities = ids[likely], probabilities[likely]
    return ids, probabilities / probabilities.sum()


def _best(logits: Logits) -> int:
    best = int(np.argmax(logits))
    # argmax finds NaN first, so that this sees any.
    return require_finite(best if math.isfinite(logits[best]) else -1)


def require_finite(best: int) -> int:
    """`best`, the token with the largest logit; UserError if it is -1, for that is not finite."""
    if best < 0:
        raise UserError("the model returned NaN or infinite logits: its weights may be damaged")
    return best


def _top_k(logits: Logits, k: int) -> npt.NDArray[np.intp]:
    """The `k` ids with the largest logits, and those that tie with the last of them."""
    rank = max(len(logits) - k, 0)
    return np.flatnonzero(logits >= np.partition(logits, rank)[rank])


def _top_p(probabilities: npt.NDArray[np.float64], p: float) -> npt.NDArray[np.intp]:
    """The fewest indices whose probabilities sum to `p`, the most probable first.

    Holtzman et al., nucleus sampling (2019), https://arxiv.org/abs/1904.09751. The nucleus is
    mostly small: sorts the head of the distribution, and a larger one if that does not hold `p`.
    """
    size = len(probabilities)
    count = min(256, size)
    while True:
        head = np.argpartition(probabilities, size - count)[size - count :]
        head = head[np.argsort(-probabilities[head], kind="stable")]
        cumulative = np.cumsum(probabilities[head])
        if cumulative[-1] >= p or count == size:
            return head[: np.searchsorted(cumulative, p) + 1]
        count = min(16 * count, size)
