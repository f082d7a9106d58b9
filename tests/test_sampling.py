import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import (
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from llmc.runtime.errors import UserError
from llmc.runtime.sampling import (
    Sampler,
    SamplingOptions,
    penalise,
    require_finite,
    weights_of_all,
    weights_of_few,
)

VOCAB = 5000


def random_logits(seed: int, vocab: int = VOCAB, spread: float = 3.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, spread, vocab).astype(np.float32)


def transformers_distribution(logits: np.ndarray, options: SamplingOptions) -> np.ndarray:
    """Probabilities [vocabulary] after transformers' warpers in transformers' order.

    In float64, as ours: in float32 the sum over the vocabulary moves the border of top-p.
    """
    scores = torch.from_numpy(logits).double()[None]
    scores = TemperatureLogitsWarper(options.temperature)(None, scores)
    if options.top_k:
        scores = TopKLogitsWarper(options.top_k)(None, scores)
    if options.top_p < 1:
        scores = TopPLogitsWarper(options.top_p)(None, scores)
    if options.min_p > 0:
        scores = MinPLogitsWarper(options.min_p)(None, scores)
    return scores.softmax(dim=-1)[0].numpy()


@pytest.mark.parametrize(
    "options",
    [
        SamplingOptions(temperature=1.0),
        SamplingOptions(temperature=0.3),
        SamplingOptions(temperature=1.0, top_k=1),
        SamplingOptions(temperature=1.0, top_k=40),
        SamplingOptions(temperature=1.0, top_k=2 * VOCAB),
        SamplingOptions(temperature=1.0, top_p=0.0),
        SamplingOptions(temperature=1.0, top_p=0.5),
        SamplingOptions(temperature=5.0, top_p=0.95),
        SamplingOptions(temperature=1.0, top_p=0.9999),
        SamplingOptions(temperature=1.0, min_p=0.05),
        SamplingOptions(temperature=1.0, min_p=1.0),
        SamplingOptions(temperature=0.7, top_k=50, top_p=0.9),
        SamplingOptions(temperature=1.5, top_k=200, top_p=0.95, min_p=0.02),
        SamplingOptions(temperature=2.0, top_p=0.7, min_p=0.1),
    ],
    ids=str,
)
@pytest.mark.parametrize("spread", [0.5, 3.0, 20.0])
def test_distribution_is_that_of_transformers(options, spread):
    for seed in range(5):
        logits = random_logits(seed, spread=spread)
        ids, weights = weights_of_all(logits, options)
        ours = np.zeros(VOCAB)
        ours[ids] = weights / weights.sum()
        theirs = transformers_distribution(logits, options)
        assert set(np.flatnonzero(ours)) == set(np.flatnonzero(theirs))
        np.testing.assert_allclose(ours, theirs, rtol=1e-11)


@pytest.mark.parametrize(("vocab", "kept"), [(1, 0), (512, 0), (512, 300), (4096, 4095)])
def test_a_nucleus_of_equals_has_as_many_as_it_takes(vocab, kept):
    """Powers of two, of which sums and shares are exact."""
    options = SamplingOptions(temperature=1.0, top_p=kept / vocab)
    ids, _ = weights_of_all(np.zeros(vocab, np.float32), options)
    assert len(set(ids)) == len(ids) == max(kept, 1)


def test_tokens_that_tie_with_the_last_of_top_k_stay():
    logits = np.array([1, 3, 2, 2, 2, 0], dtype=np.float32)
    options = SamplingOptions(temperature=1.0, top_k=2)
    ids, _ = weights_of_all(logits, options)
    assert sorted(ids) == [1, 2, 3, 4]
    assert set(np.flatnonzero(transformers_distribution(logits, options))) == set(ids)


@pytest.mark.parametrize(
    "options",
    [
        SamplingOptions(temperature=1.0, top_k=1, seed=0),
        SamplingOptions(temperature=5.0, top_k=40, seed=1),
        SamplingOptions(temperature=0.7, top_k=50, top_p=0.9, seed=2),
        SamplingOptions(temperature=3.0, top_k=256, top_p=0.99, min_p=0.02, seed=3),
    ],
    ids=str,
)
def test_few_candidates_give_what_all_logits_give(options):
    whole, few = Sampler(options), Sampler(options)
    for seed in range(200):
        logits = random_logits(seed)
        assert few.sample_top(*largest(logits, options)) == whole.sample(logits, [])


def test_a_vocabulary_smaller_than_top_k_is_drawn_from_whole():
    options = SamplingOptions(temperature=1.0, top_k=9, seed=0)
    whole, few = Sampler(options), Sampler(options)
    for seed in range(50):
        logits = random_logits(seed, vocab=7)
        assert few.sample_top(*largest(logits, options)) == whole.sample(logits, [])


def test_ties_beyond_the_candidates_ask_for_all_logits():
    options = SamplingOptions(temperature=1.0, top_k=2, seed=0)
    sampler = Sampler(options)
    within, beyond = (np.array(row, np.float32) for row in ([3, 2, 1, 0], [3, 2, 2, 0]))
    assert sampler.sample_top(*largest(within, options)) in (0, 1)
    assert sampler.sample_top(*largest(beyond, options)) is None


@pytest.mark.parametrize(
    ("options", "candidates"),
    [
        (SamplingOptions(temperature=1.0, top_k=40, top_p=0.9), 41),
        (SamplingOptions(temperature=1.0, top_p=0.9), None),
        (SamplingOptions(temperature=1.0, top_k=40, repetition_penalty=1.1), None),
        (SamplingOptions(temperature=1.0, top_k=5000), None),
    ],
)
def test_candidates_are_few_or_all(options, candidates):
    assert options.candidates == candidates


def largest(logits: np.ndarray, options: SamplingOptions) -> tuple[list[int], list[float]]:
    """Tokens and logits of the candidates, as a module finds them."""
    tokens = np.argsort(-logits, kind="stable")[: options.candidates]
    return tokens.tolist(), logits[tokens].tolist()


@pytest.mark.parametrize("temperature", [0.3, 1.0, 5.0])
@pytest.mark.parametrize("top_p", [0.0, 0.5, 0.95, 1.0])
@pytest.mark.parametrize("min_p", [0.0, 0.05, 1.0])
def test_weights_of_few_are_the_distribution(temperature, top_p, min_p):
    options = SamplingOptions(temperature=temperature, top_k=40, top_p=top_p, min_p=min_p)
    for seed in range(20):
        logits = random_logits(seed)
        ids, weights = weights_of_all(logits, options)
        expected = dict(zip(ids, weights, strict=True))
        tokens = np.argsort(-logits)[: options.top_k]
        few = weights_of_few(logits[tokens].tolist(), options)
        found = dict(zip(tokens, few, strict=False))  # it cuts off at the end
        assert found.keys() == expected.keys()
        np.testing.assert_allclose([found[id_] for id_ in ids], weights, rtol=1e-11)


def test_penalty_is_that_of_transformers():
    for seed, penalty in enumerate([0.5, 1.1, 1.7]):
        logits = random_logits(seed)
        history = np.random.default_rng(seed).integers(0, VOCAB, 300)
        seen = np.zeros(VOCAB, dtype=np.bool_)
        seen[history] = True
        theirs = RepetitionPenaltyLogitsProcessor(penalty)(
            torch.from_numpy(history)[None], torch.from_numpy(logits)[None]
        )
        np.testing.assert_array_equal(penalise(logits, seen, penalty), theirs[0].numpy())


def test_penalised_greedy_text_is_that_of_transformers():
    """Over a growing history, with prompt ids that the model cannot produce among them."""
    processor = RepetitionPenaltyLogitsProcessor(1.5)
    sampler = Sampler(SamplingOptions(repetition_penalty=1.5))
    history = [7, 7, 30, 31]
    for step in range(100):
        logits = random_logits(step % 4, vocab=30)
        before = logits.copy()
        token = sampler.sample(logits, history)
        theirs = processor(torch.tensor([history]), torch.from_numpy(logits)[None])
        assert token == theirs.argmax()
        np.testing.assert_array_equal(logits, before)
        history.append(token)


def test_penalty_starts_over_with_a_new_text():
    options = SamplingOptions(repetition_penalty=100.0)
    logits = np.array([3, 2, 1], dtype=np.float32)
    sampler = Sampler(options)
    assert sampler.sample(logits, [0, 0, 0]) == 1
    assert sampler.sample(logits, [1]) == 0


class CountingHistory(list):
    """Counts the ids that are read from it."""

    read = 0

    def __getitem__(self, index):
        items = super().__getitem__(index)
        self.read += len(items) if isinstance(index, slice) else 1
        return items

    def __iter__(self):
        self.read += len(self)
        return super().__iter__()


def test_penalty_reads_each_id_of_the_history_once():
    sampler = Sampler(SamplingOptions(repetition_penalty=1.2))
    history = CountingHistory(range(100))
    for step in range(500):
        history.append(sampler.sample(random_logits(step, vocab=200), history))
    assert history.read == 599


def test_greedy_is_argmax():
    sampler = Sampler(SamplingOptions(top_k=5, top_p=0.5, seed=1))
    for seed in range(20):
        logits = random_logits(seed)
        assert sampler.sample(logits, []) == logits.argmax()


def draw(options: SamplingOptions, count: int) -> list[int]:
    sampler = Sampler(options)
    return [sampler.sample(random_logits(step % 7), []) for step in range(count)]


def test_seed_decides_the_tokens():
    options = SamplingOptions(temperature=1.0, top_p=0.95, seed=3)
    assert draw(options, 50) == draw(options, 50)
    assert draw(options, 50) != draw(replace(options, seed=4), 50)
    unseeded = replace(options, seed=None)
    assert draw(unseeded, 50) != draw(unseeded, 50)


@pytest.mark.parametrize(
    ("options", "vocab"),
    [
        (SamplingOptions(temperature=1.0, seed=0), 12),
        (SamplingOptions(temperature=1.0, seed=0), 700),
        (SamplingOptions(temperature=0.8, top_k=6, top_p=0.9, min_p=0.05, seed=0), 12),
        (SamplingOptions(temperature=0.8, top_k=300, top_p=0.9, seed=0), 700),
    ],
    ids=["all", "many", "filtered", "many_filtered"],
)
def test_tokens_come_as_often_as_the_distribution_says(options, vocab):
    logits = random_logits(11, vocab, spread=1.0)
    draws = 20000
    sampler = Sampler(options)
    counts = np.bincount([sampler.sample(logits, []) for _ in range(draws)], minlength=vocab)
    probabilities = transformers_distribution(logits, options)
    # Five standard deviations of a binomial count, and what is left out never.
    allowed = 5 * np.sqrt(draws * probabilities * (1 - probabilities))
    assert np.all(np.abs(counts - draws * probabilities) <= allowed + (probabilities > 0))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("temperature", [1e-300, 5e-324])
def test_vanishing_temperature_is_greedy(temperature):
    sampler = Sampler(SamplingOptions(temperature=temperature, seed=0))
    logits = random_logits(0)
    assert sampler.sample(logits, []) == logits.argmax()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("penalty", [1e-3, 1e3])
def test_extreme_penalty_keeps_logits_finite(penalty):
    logits = random_logits(0, spread=1e4)
    logits[0] = 0
    assert np.isfinite(penalise(logits, np.ones(VOCAB, dtype=np.bool_), penalty)).all()


def test_tokens_that_the_model_forbids_are_never_drawn():
    logits = np.array([-math.inf, 0, -math.inf, 0], dtype=np.float32)
    sampler = Sampler(SamplingOptions(temperature=1.0, top_k=3, seed=0))
    assert {sampler.sample(logits, []) for _ in range(100)} == {1, 3}


@pytest.mark.parametrize("top_k", [0, 10, 900])
def test_a_draw_at_either_end_finds_a_token_that_may_come(monkeypatch, top_k):
    logits = np.full(1000, -math.inf, dtype=np.float32)
    logits[[300, 301, 640]] = 0
    sampler = Sampler(SamplingOptions(temperature=1.0, top_k=top_k))
    for random, token in ((0.0, 300), (0.5, 301), (1.0, 640)):  # 1 is what rounding may make
        monkeypatch.setattr(sampler, "_random", SimpleNamespace(random=lambda r=random: r))
        assert sampler.sample(logits, []) == token


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("fault", [math.nan, math.inf])
def test_broken_logits_are_refused(temperature, fault):
    logits = random_logits(0)
    logits[VOCAB // 2] = fault
    with pytest.raises(UserError, match="NaN or infinite"):
        Sampler(SamplingOptions(temperature=temperature, top_k=10)).sample(logits, [])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -0.1),
        ("temperature", math.nan),
        ("temperature", math.inf),
        ("top_k", -1),
        ("top_p", -0.1),
        ("top_p", 1.1),
        ("top_p", math.nan),
        ("min_p", -0.1),
        ("min_p", 1.1),
        ("min_p", math.nan),
        ("repetition_penalty", 0.0),
        ("repetition_penalty", -1.0),
        ("repetition_penalty", math.nan),
        ("repetition_penalty", math.inf),
        ("repetition_penalty", 1e300),
        ("repetition_penalty", 1e-300),
        ("seed", -1),
        ("temperature", None),
        ("top_p", "1"),
        ("top_k", 2.0),
        ("seed", 1.5),
    ],
)
def test_option_out_of_range_is_named(name, value):
    with pytest.raises(UserError, match=name):
        SamplingOptions(**{name: value})


def test_best_token_of_broken_logits_is_refused():
    assert require_finite(0) == 0
    with pytest.raises(UserError, match="NaN or infinite"):
        require_finite(-1)
