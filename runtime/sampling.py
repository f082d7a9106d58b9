"""Logits to the next token: greedy, or drawn from the filtered distribution."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from numbers import Integral, Real
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt

from llmc.runtime.errors import UserError

# So many of the largest logits are found in less time than it takes to read all of them.
_FEW = 256

_LEAST = float(np.finfo(np.float32).tiny)

# Of all weights, so many are drawn from once their part is.
_PART = 256

Logits = npt.NDArray[np.float32]  # [vocabulary]


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
        for name in ("temperature", "top_p", "min_p", "repetition_penalty"):
            set_number(self, name, Real)
        set_number(self, "top_k", Integral)
        if self.seed is not None:
            set_number(self, "seed", Integral)
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
        return self.top_k + 1 if self.is_drawn and self.top_k else None

    @property
    def is_drawn(self) -> bool:
        """Whether a module can draw the tokens."""
        return self.temperature > 0 and self.top_k <= _FEW and self.repetition_penalty == 1

    @property
    def drawing(self) -> list[float]:
        """Temperature, top_p and min_p, for float32 to hold; without a temperature of 0."""
        return [max(self.temperature, _LEAST), self.top_p, self.min_p]


def set_number(options: object, name: str, kind: type[Real] | type[Integral]) -> None:
    """Makes option `name` a number of Python's, be it numpy's. UserError where it is no `kind`."""
    value = getattr(options, name)
    if not isinstance(value, kind):
        what = "a whole number" if kind is Integral else "a number"
        raise UserError(f"{name} must be {what}, not {value!r}")
    number: Callable[[Any], int | float] = int if kind is Integral else float
    try:
        object.__setattr__(options, name, number(value))
    except OverflowError as error:
        raise UserError(f"{name} must be a number that a float can be") from error


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
        self._random = Random(options.seed)
        self._ahead: list[float] = []  # random numbers that no token has taken yet
        self._seen = np.zeros(0, dtype=np.bool_)  # by token id
        self._read = 0  # ids of the history that are marked in _seen

    def numbers(self, count: int) -> list[float]:
        """The random numbers, from 0 to 1, that the next `count` tokens are drawn by."""
        missing = count - len(self._ahead)
        self._ahead += [self._random.random() for _ in range(missing)]
        return self._ahead[:count]

    def take(self, count: int) -> None:
        """Leaves out the next `count` random numbers: somebody has drawn by them."""
        del self._ahead[:count]

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
        if 0 < options.top_k <= _FEW:
            _best(logits)  # refuses what is not finite
            tokens = _top_k(logits, options.top_k)
            tokens = tokens[np.argsort(-logits[tokens], kind="stable")]
            return self._draw_few(tokens.tolist(), logits[tokens].tolist())
        ids, weights = weights_of_all(logits, options)
        return int(ids[_draw(weights, self._next())])

    def sample_top(self, tokens: Sequence[int], logits: Sequence[float]) -> int | None:
        """What `sample` gives, from the `candidates` largest logits, descending, and their tokens.

        There are fewer where there are no more. None where all must be seen, for others may tie
        with the last.
        """
        k = self._options.top_k
        if len(logits) <= k:
            return self._draw_few(tokens, logits)
        if logits[k] == logits[k - 1]:
            return None
        return self._draw_few(tokens[:k], logits[:k])

    def _draw_few(self, tokens: Sequence[int], logits: Sequence[float]) -> int:
        sums = list(accumulate(weights_of_few(logits, self._options)))
        drawn = bisect_right(sums, self._next() * sums[-1])
        return tokens[min(drawn, bisect_left(sums, sums[-1]))]

    def _next(self) -> float:
        (number,) = self.numbers(1)
        self.take(1)
        return number

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


def weights_of_all(
    logits: Logits, options: SamplingOptions
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.float64]]:
    """What to draw from: token ids, in no particular order, and what their probabilities are like.

    Applies all options but the repetition penalty; the temperature must be above 0. UserError if
    the largest of the logits is NaN or infinite.
    """
    peak = logits[_best(logits)]
    ids = np.arange(len(logits))
    if options.top_k:
        ids = _top_k(logits, options.top_k)
        logits = logits[ids]
    # One array, computed in place: another for each step would cost more than the arithmetic.
    weights = np.subtract(logits, peak, dtype=np.float64)
    with np.errstate(over="ignore"):  # near temperature 0 all but the peak are infinitely far
        weights /= options.temperature
    np.exp(weights, out=weights)
    if options.top_p < 1:
        kept = _top_p(weights, options.top_p)
        ids, weights = ids[kept], weights[kept]
    if options.min_p > 0:
        likely = weights >= options.min_p  # that of the peak is 1
        ids, weights = ids[likely], weights[likely]
    return ids, weights


def weights_of_few(logits: Sequence[float], options: SamplingOptions) -> list[float]:
    """What `weights_of_all` gives, for the logits that top-k leaves, descending.

    What top-p and min-p leave out is cut off at the end. Without numpy, whose functions take longer
    to call than these few numbers to compute.
    """
    peak, temperature = logits[0], options.temperature
    weights = [math.exp((logit - peak) / temperature) for logit in logits]
    if options.top_p < 1:
        sums = list(accumulate(weights))
        weights = weights[: bisect_left(sums, options.top_p * sums[-1]) + 1]
    return [weight for weight in weights if weight >= options.min_p]


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


def _top_p(weights: npt.NDArray[np.float64], p: float) -> npt.NDArray[np.intp]:
    """The fewest indices whose weights sum to `p` of all, the heaviest first.

    Holtzman et al., nucleus sampling (2019), https://arxiv.org/abs/1904.09751. The nucleus is
    mostly small: sorts the head of the distribution, and a larger one if that does not hold `p`.
    """
    total = weights.sum()
    border = p * total
    # All that are lighter sum to at most half of what the nucleus may leave out.
    heavy = np.flatnonzero(weights >= (total - border) / (2 * len(weights)))
    weights, size = weights[heavy], len(heavy)
    count = min(256, size)
    while True:
        head = np.argpartition(weights, size - count)[size - count :]
        head = head[np.argsort(-weights[head], kind="stable")]
        sums = np.cumsum(weights[head])
        if sums[-1] >= border or count == size:
            return heavy[head[: np.searchsorted(sums, border) + 1]]
        count = min(16 * count, size)


def _draw(weights: npt.NDArray[np.float64], random: float) -> int:
    """The index at which `random`, from 0 to 1, of all weights is reached.

    First the part of so many weights, then the index within it: one after the other, as running
    sums are made, numbers are added up several times as slowly as all at once.
    """
    sums = np.cumsum(np.add.reduceat(weights, np.arange(0, len(weights), _PART)))
    wanted = random * sums[-1]
    part = _reach(sums, wanted)
    if part:
        wanted -= sums[part - 1]
    begin = part * _PART
    return begin + _reach(np.cumsum(weights[begin : begin + _PART]), wanted)


def _reach(sums: npt.NDArray[np.float64], wanted: float) -> int:
    """The first index with more than `wanted`; where rounding leaves none, with all there is."""
    return min(int(np.searchsorted(sums, wanted, "right")), int(np.searchsorted(sums, sums[-1])))
